// Install: mvn package
// Start: java -jar target/upstream-1.jar --server.address=127.0.0.1 --server.port=3000
package example;

import com.nimbusds.jose.JOSEException;
import com.nimbusds.jose.JWSAlgorithm;
import com.nimbusds.jose.jwk.source.JWKSource;
import com.nimbusds.jose.jwk.source.JWKSourceBuilder;
import com.nimbusds.jose.jwk.source.RateLimitReachedException;
import com.nimbusds.jose.proc.BadJOSEException;
import com.nimbusds.jose.proc.JWSVerificationKeySelector;
import com.nimbusds.jose.proc.SecurityContext;
import com.nimbusds.jose.util.DefaultResourceRetriever;
import com.nimbusds.jwt.JWTClaimsSet;
import com.nimbusds.jwt.proc.DefaultJWTClaimsVerifier;
import com.nimbusds.jwt.proc.DefaultJWTProcessor;
import jakarta.servlet.DispatcherType;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.net.URI;
import java.text.ParseException;
import java.util.Map;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.stereotype.Component;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RequestAttribute;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.servlet.HandlerInterceptor;
import org.springframework.web.servlet.config.annotation.InterceptorRegistry;
import org.springframework.web.servlet.config.annotation.WebMvcConfigurer;

@SpringBootApplication
public class Upstream {
  public static void main(String[] args) {
    SpringApplication.run(Upstream.class, args);
  }
}

/** Two issuers may have the same subject for different people, so only both together say who it is. */
record Caller(String issuer, String subject) {}

/** An interceptor, because it comes after filters that change the method, such as HiddenHttpMethodFilter. */
@Component
class StatementCheck implements HandlerInterceptor, WebMvcConfigurer {
  private static final Logger LOG = LoggerFactory.getLogger(StatementCheck.class);
  private final DefaultJWTProcessor<SecurityContext> processor = new DefaultJWTProcessor<>();

  StatementCheck(
      @Value("${STATEMENT_ISSUER}") String issuer, // PUBLIC_URL of the gate
      @Value("${STATEMENT_AUDIENCE}") String audience, // gate.upstream
      @Value("${STATEMENT_KEYS}") URI keysUrl) // http://GATE/.well-known/holdfast-jwks.json
      throws Exception {
    // Anybody can name an unknown key: it has the list read again, but not more often than twice in five seconds.
    JWKSource<SecurityContext> keys = JWKSourceBuilder.create(keysUrl.toURL(), new DefaultResourceRetriever(5_000, 5_000, 65_536))
        .cache(300_000, 10_000)
        .rateLimited(5_000)
        .build();
    processor.setJWSKeySelector(new JWSVerificationKeySelector<>(JWSAlgorithm.ES256, keys));
    var verifier = new DefaultJWTClaimsVerifier<SecurityContext>(audience, new JWTClaimsSet.Builder().issuer(issuer).build(), Set.of("exp", "sub_id"));
    verifier.setMaxClockSkew(5);
    processor.setJWTClaimsSetVerifier(verifier);
  }

  @Override
  public void addInterceptors(InterceptorRegistry registry) {
    registry.addInterceptor(this);
  }

  @Override
  public boolean preHandle(HttpServletRequest request, HttpServletResponse response, Object handler) throws JOSEException {
    // The page of an error is for a request that was looked at before.
    if (request.getDispatcherType() != DispatcherType.REQUEST) return true;
    try {
      // Of the servlet API only getRequestURI() is not decoded.
      request.setAttribute("caller", readCaller(request.getHeader("X-Auth-Statement"), request.getMethod(), request.getRequestURI()));
      return true;
    } catch (BadJOSEException | RateLimitReachedException | ParseException error) {
      LOG.warn("statement refused: {}", error.getMessage());
      response.setStatus(HttpServletResponse.SC_UNAUTHORIZED);
      return false;
    }
  }

  private Caller readCaller(String statement, String method, String path) throws BadJOSEException, JOSEException, ParseException {
    JWTClaimsSet claims = processor.process(statement == null ? "" : statement, null);
    if (!method.equals(claims.getStringClaim("method")) || !path.equals(claims.getStringClaim("path"))) throw new BadJOSEException("It is about another request");
    Map<String, Object> subject = claims.getJSONObjectClaim("sub_id");
    return new Caller((String) subject.get("iss"), (String) subject.get("sub"));
  }
}

@RestController
class Orders {
  @RequestMapping("/orders/{name}")
  Map<String, String> order(@RequestAttribute Caller caller, HttpServletRequest request, @PathVariable String name) {
    return Map.of("issuer", caller.issuer(), "subject", caller.subject(), "method", request.getMethod(), "order", name);
  }
}
