import type { RefusalReason } from '../../lib/refusal.ts'

/** Advice about a refusal, for the people who run or call the service. It is never sent in an answer. */
export interface Advice {
  /** What the service found. */
  readonly meaning: string
  /** The usual cause. */
  readonly cause: string
  /** What to do about it. */
  readonly cure: string
}

/**
 * One entry for each reason. docs/reference/errors.md and the tools that explain a refusal take their words from here.
 */
export const ADVICE: Readonly<Record<RefusalReason, Advice>> = Object.freeze({
  credentials_missing: {
    meaning: 'There is no `Authorization` header, or it holds a scheme with nothing after it.',
    cause: 'The client sent no token, or a proxy or a redirect to another host dropped the header.',
    cure: 'Send `Authorization: DPoP <token>` or `Bearer <token>`. If it was sent, look at what the proxy ' +
      'passes on.'
  },
  scheme_not_offered: {
    meaning: 'This service does not accept the scheme of the `Authorization` header.',
    cause: 'The scheme is Bearer where only DPoP is accepted, DPoP where it is off, or one without access ' +
      'tokens, such as Basic.',
    cure: 'Use a scheme of `WWW-Authenticate`. `IDP_DPOP_MODE` decides which ones are accepted.'
  },
  headers_uncounted: {
    meaning:
      'The request has as many header lines as Node keeps: 1,000 unless the server sets `maxHeadersCount`. Older ' +
      'releases of Node silently drop the others, which could hide a second `Authorization`, `DPoP` or `Host` ' +
      'line, or a header that a proxy appended; newer ones answer 431 to more lines than that.',
    cause: 'An attacker hides a line behind the others, or a client repeats one many times.',
    cure: 'Send fewer header lines. A few dozen are enough.'
  },
  authorization_repeated: {
    meaning:
      'The request has two or more `Authorization` lines. Two programs that read it could each use a different one.',
    cause: 'A client library and the code around it both add the header, or a gateway adds its own.',
    cure: 'Send it once. A gateway must replace it.'
  },
  authorization_malformed: {
    meaning: 'What follows the scheme is not one single token, or it has characters that no token can have.',
    cause: 'There are quotes, white space, a line break or a second token, or a variable was undefined.',
    cure: 'Send the scheme, one space and the bare token.'
  },

  token_malformed: {
    meaning: 'The token is not three segments of base64url, or its first two segments are not JSON objects.',
    cause: 'The token is opaque or encrypted, as is usual when the token request names no API, or it was cut ' +
      'or padded.',
    cure:
      'Name the API in the token request (`audience` or `resource`), and have the provider issue signed JWTs for it.'
  },
  token_algorithm: {
    meaning: 'The `alg` in the header of the token is not one of those that are accepted from its issuer. Unless ' +
      '`IDP_ALGS` says otherwise, only RS256 is.',
    cause: 'The provider signs with another algorithm, such as HS256 or ES256.',
    cure: 'Have it sign with RS256, or name its algorithm in `IDP_ALGS`. HS256 is never accepted.'
  },
  token_type: {
    meaning: 'The `typ` in the header of the token is neither `at+jwt` nor `JWT`.',
    cause: 'It is an ID token, a logout token, or the DPoP proof.',
    cure: 'Send `access_token` of the token response.'
  },
  token_kind: {
    meaning:
      'The token is a security event, a logout token, a refresh token or an ID token, by its claims (`events`, ' +
      '`token_use`, `typ`) or by what the introspection endpoint says about it. Or that endpoint names a ' +
      '`token_type` other than `Bearer` and `DPoP`, or none while `idp.introspection.audienceOptional` is set.',
    cause: 'The client sent another token of the token response, or an attacker tries other tokens.',
    cure: 'Send `access_token` of the token response. If the endpoint sends no `token_type`, have it name ' +
      'the audience, and leave `audienceOptional` off.'
  },
  token_critical: {
    meaning:
      'The header of the token names extensions that the reader must understand (`crit` or `b64`). This service ' +
      'understands none.',
    cause: 'The provider adds an extension to the tokens of this API.',
    cure: 'Switch it off at the provider.'
  },
  token_claim_invalid: {
    meaning: '`iss`, `sub`, `aud` or `exp` is missing; or one of these, `nbf` or `iat` has the wrong type; or claims ' +
      'are nested more than 64 deep.',
    cause: 'The provider leaves out a claim, such as `sub` without a user, or rewrites one.',
    cure: 'Compare the claims with RFC 9068 section 2.2; the log line names the `claim`. Have the provider ' +
      'issue it, for introspection too.'
  },
  token_issuer: {
    meaning: 'The `iss` of the token is not a configured issuer. A slash at the end makes no difference.',
    cause: 'It comes from another tenant or environment, or the issuer has a path or a custom domain.',
    cure: 'Compare `iss` with `issuer` of the discovery document. Set `IDP_DOMAIN`, or `IDP_ISSUER` if it ' +
      'is not `https://{domain}/` (AD FS: `http:`, with `IDP_JWKS_URI`). Several issuers are listed under ' +
      '`idp.issuers`.'
  },
  token_audience: {
    meaning: 'The `aud` of the token is not the configured audience, and is no list that contains it.',
    cause: 'It was requested for another API or for none, or the values differ in a slash, in case or in the ' +
      'scheme.',
    cure: 'Compare `aud` with `IDP_AUDIENCE` character by character, and name exactly that API in the token request.'
  },
  token_expired: {
    meaning: 'The `exp` of the token is in the past, even with the tolerance added.',
    cause: 'The client keeps expired tokens, or the clock of this service is ahead.',
    cure: 'Get a new token before `expires_in` has passed. If tokens are new, compare the clocks. ' +
      '`IDP_CLOCK_TOLERANCE_SECONDS` is for seconds, not for minutes.'
  },
  token_not_yet_valid: {
    meaning: 'The `nbf` of the token is in the future, even with the tolerance subtracted.',
    cause: 'The clock of this service is behind that of the provider.',
    cure: 'Set the clock right (NTP).'
  },
  token_binding_unusable: {
    meaning: 'The token has a `cnf` claim that is neither `{ "jkt": "..." }` nor, if `CLIENT_CERTIFICATE` is set, `{ ' +
      '"x5t#S256": "..." }` or both. It is bound to something that this service cannot check. Ignoring the ' +
      'binding would let a thief use the token.',
    cause: 'The token is bound to a certificate (`x5t#S256`) and `CLIENT_CERTIFICATE` is `off`; it is bound ' +
      'to a key alone, under `fapi2` without DPoP; or a rule at the provider writes its own `cnf`.',
    cure: 'Set `CLIENT_CERTIFICATE` if clients have certificates, else have the provider bind by DPoP, or ' +
      'not at all.'
  },
  token_key_unknown: {
    meaning: 'The key that the token names by `kid` is not among the usable keys of the provider.',
    cause: 'The token comes from another environment, or its key was withdrawn or cannot be used here: it ' +
      'must be for signing, of the type and curve of the algorithm, and RSA keys have 2048 to 4096 bits.',
    cure: 'Get a new token. If that does not help, look for its `kid` at `jwks_uri` of the provider, and ' +
      'check `IDP_JWKS_URI`.'
  },
  token_signature: {
    meaning: 'The signature of the token was not made with the key of the provider.',
    cause: 'The token was changed after it was signed, or another provider uses the same `kid`.',
    cure: 'Send it as it was issued. If this happens often, find out who sends such tokens.'
  },
  token_bound: {
    meaning: 'The token is bound to a key (`cnf.jkt`) but was sent with the Bearer scheme. If that were accepted, ' +
      'anyone who found the token could use it.',
    cause: 'A client sends a DPoP token as Bearer, or a thief does.',
    cure: 'Send `Authorization: DPoP <token>` with a fresh proof in the `DPoP` header.'
  },
  token_unbound: {
    meaning: 'The token is not bound to a key (it has no `cnf.jkt`) but was sent with the DPoP scheme.',
    cause: 'DPoP is off at the provider for this client or API, or the token request had no proof.',
    cure: 'Switch DPoP on at the provider, and send a proof to its token endpoint: `token_type` of the ' +
      'response must be `DPoP`.'
  },
  token_not_sender_constrained: {
    meaning: 'The token is bound to neither a key (`cnf.jkt`) nor a certificate (`cnf["x5t#S256"]`), and ' +
      '`SECURITY_PROFILE` is `fapi2`, which accepts only bound tokens.',
    cause: 'The token request had neither proof nor certificate, or the provider does not bind tokens for ' +
      'this client.',
    cure: 'Send one of them to the token endpoint, and switch the binding on at the provider.'
  },
  certificate_missing: {
    meaning:
      'The token is bound to a certificate (`cnf["x5t#S256"]`), and the request came without one. A header that ' +
      'holds a certificate counts only if it comes from a trusted proxy.',
    cause: 'The client connected without it, the proxy does not ask for it or does not pass it on, or the ' +
      'proxy is not in `TRUST_PROXY`.',
    cure: 'Use the certificate of the token request, and have the proxy set the header that ' +
      '`CLIENT_CERTIFICATE` names.'
  },
  certificate_unreadable: {
    meaning: 'The trusted proxy has passed on a certificate in a form that cannot be read: not the encoding of ' +
      '`CLIENT_CERTIFICATE`, two header lines, or a `Hash` and a `Cert` that differ.',
    cause: 'The proxy uses another form than `CLIENT_CERTIFICATE` names, or appends to a header of the ' +
      'client.',
    cure: 'Let the proxy replace the header, and set `CLIENT_CERTIFICATE` to its form.'
  },
  certificate_mismatch: {
    meaning: 'The thumbprint of the certificate is not the `cnf["x5t#S256"]` of the token.',
    cause: 'The client has a new certificate and an old token, or the token was stolen.',
    cure: 'Fetch a token with the certificate that is in use.'
  },
  token_inactive: {
    meaning: 'The introspection endpoint answers `active: false` for the token.',
    cause: 'It was revoked, its user has logged out, it has expired, or it was made up.',
    cure: 'Fetch a new token. If every token is refused, check that `IDP_CLIENT_ID` may introspect them: ' +
      'some providers answer `active: false` to other clients.'
  },
  token_contradicted: {
    meaning:
      'The `iss`, `sub`, `aud` or `cnf` of the answer of the introspection endpoint differs from the same claim ' +
      'of the token.',
    cause: 'The endpoint belongs to another tenant, or answers about another token.',
    cure: 'Check `IDP_INTROSPECTION_ENDPOINT`, then ask the provider.'
  },
  token_revoked: {
    meaning:
      'The token, its session, its user, its client or its key was revoked after the token was issued. The log ' +
      'line names the event, its source and its time.',
    cause: 'The user has logged out or changed a password, or the provider or an operator has ended the ' +
      'session.',
    cure: 'Log in again and fetch a new token. Its `iat` must be later than the second of the event, and by ' +
      'more than `IDP_CLOCK_TOLERANCE_SECONDS` (5) unless the issuer of the token sent it. An operator can ' +
      'undo a mistake: docs/reference/revocation.md.'
  },
  token_too_long: {
    meaning:
      'Revocation is on, and the token is valid for longer than `revocation.retentionSeconds`, or has no `exp`. ' +
      'A revocation would be forgotten while the token is still valid.',
    cause: 'The provider issues tokens for longer than the service is set for.',
    cure: 'Shorten their lifetime at the provider, or raise `revocation.retentionSeconds` to it.'
  },
  domain_has_scheme: {
    meaning: 'The service cannot verify any token, because its `IDP_DOMAIN` starts with a scheme.',
    cause: '`IDP_DOMAIN` was copied from the address bar of a browser.',
    cure: 'Write only the host: `tenant.example`. A provider with a path needs `IDP_ISSUER`.'
  },

  proof_beside_bearer: {
    meaning:
      'A `DPoP` header was sent with a Bearer token that is not bound to a key. The proof protects nothing, and ' +
      'the client believes that it does.',
    cause: 'The provider issued a Bearer token in spite of the proofs, or the client still writes Bearer.',
    cure: 'If `token_type` of the token response is `DPoP`, use that scheme. If it is `Bearer`, switch DPoP ' +
      'on at the provider or leave the proof out.'
  },
  proof_missing: {
    meaning: 'The DPoP scheme was used without a `DPoP` header, or with an empty one.',
    cause: 'The client only changed the scheme, or a proxy or a CORS preflight dropped the header.',
    cure: 'Send a fresh proof with each request. Have proxies pass on `DPoP`, and list origins of browsers ' +
      'in `CORS_ORIGINS`.'
  },
  proof_repeated: {
    meaning: 'The request has two or more proofs, on separate lines or joined by a comma.',
    cause: 'A retry adds a header instead of replacing it, or two layers of the client make proofs.',
    cure: 'Send exactly one proof.'
  },
  proof_malformed: {
    meaning:
      'The proof is not three segments of base64url without padding, or its first two segments are not JSON objects.',
    cause: 'It has padding, plain base64 or another serialisation of JWS, or was cut.',
    cure: 'Make it with a library for DPoP or for compact JWS.'
  },
  proof_too_large: {
    meaning: 'The proof is longer than 8 KiB.',
    cause: 'Claims of the application, or a whole token, are in it.',
    cure: 'Send only the claims of RFC 9449 section 4.2.'
  },
  proof_type: {
    meaning: 'The `typ` in the header of the proof is not `dpop+jwt`.',
    cause: 'The JWT library wrote its default `JWT`, or the access token was sent.',
    cure: 'Set `typ` to `dpop+jwt`.'
  },
  proof_algorithm: {
    meaning: 'This service does not accept the `alg` of the proof.',
    cause: 'The key is of another kind, or the algorithm is symmetric or `none`.',
    cure: 'Use one of `algs` in `WWW-Authenticate`. ES256 is among them unless `DPOP_ALGS` says otherwise.'
  },
  proof_critical: {
    meaning:
      'The header of the proof names extensions that the reader must understand (`crit` or `b64`). This service ' +
      'understands none.',
    cause: 'The client signs with a custom profile.',
    cure: 'Leave out the extension.'
  },
  proof_key: {
    meaning: 'The `jwk` of the proof is missing, or is not a public key of the type, curve and size that `alg` needs.',
    cause: 'The JWK has a private part, a coordinate has lost a leading zero, `alg` belongs to another ' +
      'curve, or an RSA key does not have 2048 to 4096 bits.',
    cure: 'Send only the public JWK: `kty`, `crv`, `x`, `y` (EC), `kty`, `crv`, `x` (OKP), `kty`, `n`, `e` ' +
      '(RSA) or `kty`, `alg`, `pub` (AKP). Discard a key whose private half was sent.'
  },
  proof_claim_invalid: {
    meaning: '`jti`, `htm`, `htu`, `iat` or `ath` is missing or has the wrong type; or `jti` is longer than 512 ' +
      'characters; or `exp` or `nbf` is not a number.',
    cause: 'It was made for the token endpoint, without `ath`, or `iat` is text.',
    cure: 'Make a proof for this request, with `ath`: the base64url SHA-256 of the access token.'
  },
  proof_expired: {
    meaning: 'The `exp` of the proof is in the past.',
    cause: 'It was made too early, or the clock of the client is behind.',
    cure: 'Make it just before the request. It needs no `exp`.'
  },
  proof_not_yet_valid: {
    meaning: 'The `nbf` of the proof is in the future.',
    cause: 'The clock of the client is ahead.',
    cure: 'Leave `nbf` out, or set the clock right.'
  },
  htm_mismatch: {
    meaning: 'The `htm` of the proof is not the method of the request. Case counts.',
    cause: 'The proof is for another request, `htm` is in lower case, or something changed the method.',
    cure: 'Make a proof for each request, with its method in upper case.'
  },
  htu_invalid: {
    meaning: 'The `htu` of the proof is not an absolute http or https URL, or it contains a user name.',
    cause: '`htu` is only a path, or has credentials.',
    cure: 'Write the whole URL of the request, without query and fragment.'
  },
  htu_mismatch: {
    meaning:
      'The `htu` of the proof is not the URL that the client used, as this service sees it. The log line holds ' +
      'both URLs and says where they differ.',
    cause: 'A proxy changes scheme, host, port or path and the service does not know it, or the proof is ' +
      'from before a redirect or for another endpoint.',
    cure: 'Behind a proxy, set `PUBLIC_URL`, or `TRUST_PROXY` with the `X-Forwarded-*` headers: ' +
      'docs/reference/behind-a-proxy.md. Otherwise make the proof for exactly the URL that is requested.'
  },
  iat_too_old: {
    meaning: 'The `iat` of the proof is further in the past than `IDP_DPOP_IAT_OFFSET_SECONDS`.',
    cause: 'The proof or the request waited, or the clock of the client is behind.',
    cure: 'Make the proof just before the request, and set the clock right. With `DPOP_NONCE=required` the ' +
      'clocks of clients do not matter.'
  },
  iat_in_future: {
    meaning: 'The `iat` of the proof is further in the future than `IDP_DPOP_IAT_LEEWAY_SECONDS`.',
    cause: 'The clock of the client is ahead, or `iat` is in milliseconds.',
    cure: 'Write seconds, and set the clock right. With `DPOP_NONCE=required` the clocks of clients do not ' +
      'matter.'
  },
  ath_mismatch: {
    meaning: 'The `ath` of the proof is not the hash of the token in the `Authorization` header.',
    cause: 'The token was renewed after the proof was made, or `ath` is hex, padded, or the hash of ' +
      'something else.',
    cure: 'Set `ath` to the SHA-256 of exactly the token that is sent, in base64url without padding.'
  },
  jkt_mismatch: {
    meaning:
      'The token is bound to a key, and the proof was made with another one: the thumbprint of its `jwk` is not ' +
      '`cnf.jkt`.',
    cause: 'The client made a new key after it got the token, two clients share tokens, or DPoP has just ' +
      'stopped a thief.',
    cure: 'Keep the key as long as the token. If such requests come from unknown places, assume that the ' +
      'token was stolen.'
  },
  proof_signature: {
    meaning: 'The signature of the proof was not made with the key in its header.',
    cause: 'An ECDSA signature is in DER, but JWS needs r and s one after the other; key or digest are not ' +
      'those of the header; or the proof was changed.',
    cure: 'Sign with a library for JWS, with the private half of the `jwk`.'
  },
  nonce_missing: {
    meaning: 'Nonces are required, and the proof has none. The answer provides one in `DPoP-Nonce`.',
    cause: 'Usually this is the first request of a client.',
    cure: 'Repeat the request with a new proof and the nonce of the answer, and keep the newest ' +
      '`DPoP-Nonce`. Most libraries do this.'
  },
  nonce_stale: {
    meaning: 'This service did not make the nonce of the proof, or made it more than five minutes ago.',
    cause: 'The client was idle, sent a nonce from the token endpoint, or two instances have different ' +
      'secrets.',
    cure: 'Repeat the request with a new proof and the nonce of the answer. With a Redis store, give every ' +
      'instance the same `DPOP_NONCE_SECRET`.'
  },
  nonce_of_another_instance: {
    meaning: 'Another process made the nonce of the proof: another instance, or this one before it was restarted. ' +
      'Without a common replay store a nonce is good only at the process that made it, so that a proof passes at ' +
      'most once.',
    cause: 'The balancer does not keep a client at its instance, or instances were added, removed or ' +
      'restarted: then each client that moves gets this once.',
    cure: 'Repeat the request with a new proof and the nonce of the answer. If it comes again, have the ' +
      'balancer choose by the first segment of the proof, as the files in `deploy/` do, or use a Redis with ' +
      'a common `DPOP_NONCE_SECRET`: docs/guide/instances.md.'
  },
  proof_replayed: {
    meaning: 'A proof with this key and `jti` was accepted before.',
    cause: 'The client or a proxy retried, the client reuses its proofs, or someone recorded the request.',
    cure: 'Make a proof with a new `jti` for every request and every retry, and let no proxy retry.'
  },

  host_invalid: {
    meaning:
      'The service cannot determine which URL the client used, because the `Host` header is missing or is not a host.',
    cause: 'The client speaks HTTP/1.0, a proxy sets `Host` to an impossible name, or this is an attack.',
    cure: 'Have the proxy pass the `Host` header on, or set `PUBLIC_URL`.'
  },
  host_repeated: {
    meaning: 'The request has two or more `Host` lines. Two programs that read it could each use a different one.',
    cause: 'A proxy adds `Host` instead of replacing it, or this is an attack.',
    cure: 'Have the proxy set `Host` once.'
  },
  target_authority: {
    meaning: 'The request line holds a whole URL. Its host is not that of the `Host` header, or its scheme is https ' +
      'although the client used http.',
    cause: 'A client uses this service as a forward proxy, or this is an attack.',
    cure: 'Send only the path in the request line.'
  },
  target_path: {
    meaning: 'The path of the request can be read in two ways: it contains dot segments, backslashes, control ' +
      'characters, a fragment, bytes outside ASCII or a broken escape.',
    cause: 'The client does not normalise its URLs, or this is an attack.',
    cure: 'Resolve dot segments, and write other bytes as `%xx`.'
  },
  forwarded_invalid: {
    meaning:
      'A forwarded header of the trusted proxy (`X-Forwarded-Proto`, `-Host`, `-Port`, `-Prefix` or `Forwarded`) ' +
      'is not a valid scheme, host, port or path. The log line names the header.',
    cause: 'The proxy sends an empty value or an unknown variable, or passes on what clients send.',
    cure: 'Have the proxy set the header itself, to the value that the client used: docs/reference/behind-a-proxy.md.'
  },

  acr_missing: {
    meaning: 'The token is good, but the route needs a login of another kind: the `acr` claim of the token is ' +
      'none of those in `acr_values` of the challenge.',
    cause: 'The user logged in without what the route asks for, such as a second factor, or tokens lack ' +
      '`acr`.',
    cure: 'Send the user to the provider with `acr_values` (and `max_age`) of the challenge, and use the ' +
      'new token (RFC 9470). If every token lacks `acr`, have the provider write it.'
  },
  authentication_too_old: {
    meaning: 'The token is good, but the login behind the token is older than the route allows, or the token ' +
      'does not have its time: `auth_time` must be a number, and not in the future.',
    cause: 'The login was some time ago and tokens were only refreshed, or tokens lack `auth_time`.',
    cure: 'Send the user to the provider with `max_age` (and `acr_values`) of the challenge, and use the ' +
      'new token (RFC 9470). If every token lacks `auth_time`, have the provider write it.'
  },

  scope_missing: {
    meaning: 'The token is good, but it lacks a permission that the route needs. The `scope` of the ' +
      'challenge names the permission.',
    cause: 'The client did not ask for it or did not get it, or the provider writes it into another claim.',
    cure: 'Ask for it in the token request, and grant it at the provider. If permissions are in `scp` or ' +
      '`permissions`, set `IDP_SCOPE_CLAIMS`.'
  },

  claim_mismatch: {
    meaning: 'The token is good, but a claim that the route asks for is missing in the token or has another ' +
      'value. The log line names the claim.',
    cause: 'The user belongs to another tenant or group, or tokens lack the claim. Text and number differ: ' +
      '`"2"` is not `2`.',
    cure: 'Compare the claim with what the route asks for: `/docs` says it. Another scope does not help.'
  },
  authorization_details_missing: {
    meaning:
      'The token is good, but no element of the claim `authorization_details` has the type that the route ' +
      'asks for, or the route does not accept its content. The log line names the type.',
    cause: 'The client did not ask for it, the user did not grant it or only for another account or amount, ' +
      'or tokens lack details.',
    cure: 'Ask for the detail with `authorization_details` in the authorization request (RFC 9396).'
  },

  rate_limited: {
    meaning: 'The token is good, but the client has already sent as many requests this minute as `RATE_LIMIT` ' +
      'allows. A client is counted by the key that its token is bound to, or by `sub` if the token is unbound.',
    cause: 'A program loops or retries without a pause, several share one `sub`, or the limit is too low.',
    cure: 'Wait for `Retry-After` seconds. Give each program its own token, or raise `RATE_LIMIT`.'
  },

  replay_share_exceeded: {
    meaning: 'Token and proof are good, but the key of this client already has a quarter of all `DPOP_REPLAY_MAX` ' +
      'records in the replay store in memory. One key may not have more, so that it cannot fill the store for ' +
      'others. Bearer requests and other clients are not affected.',
    cause: 'One key made more than `DPOP_REPLAY_MAX` / 4 requests within `IDP_DPOP_IAT_OFFSET_SECONDS` and a ' +
      'few seconds more (with the defaults: 1,600 requests per second).',
    cure: 'Wait for `Retry-After` seconds. Give each program its own key, raise `DPOP_REPLAY_MAX`, shorten ' +
      'the offset, use a Redis, which has no such share, or set a lower `RATE_LIMIT`.'
  },

  revocation_unknown: {
    meaning: 'This instance has not yet read all revocations, or has not heard from their store for ' +
      '`revocation.staleSeconds`. The token may have been revoked, so it is not accepted.',
    cause: 'The Redis server of `revocation.store` is down, slow or cannot be reached, or the instance has ' +
      'only just started.',
    cure: 'Repair the store: `/health/ready` and the log name the fault. `revocation.outage: serve` accepts ' +
      'tokens by what is known.'
  },
  issuers_unavailable: {
    meaning:
      'The function of the application that decides about this issuer failed, took longer than 5 s, or answered ' +
      'with settings that cannot be used.',
    cause: 'The table of tenants cannot be reached, or an entry in it is wrong.',
    cure: 'Repair the table: `issuers_unavailable` in the log names the fault.'
  },
  keys_unavailable: {
    meaning:
      'The service does not have the key that it needs, and cannot get it from the provider. The request may be good.',
    cause: 'The provider is down, or DNS, a firewall, a proxy or TLS is in the way.',
    cure: 'The log and the metric `holdfast_keys_last_failure` name the failure: ' +
      'docs/reference/monitoring.md.'
  },
  introspection_unavailable: {
    meaning: 'Token introspection gave no usable answer in time. The log line names the `failure`.',
    cause: 'The endpoint is down, slow, refuses our client credentials (`status: 401`), answers something ' +
      'else, or 64 calls are under way and the token is unknown (`busy`).',
    cure: 'Check the endpoint and the credentials with `npm run check` or `holdfast check`.'
  },
  replay_unavailable: {
    meaning:
      'The service cannot determine whether the proof was used before, because the shared replay store does not ' +
      'answer. The request may be good.',
    cause: 'Redis is down, slow or full, or it refuses the service.',
    cure: '`/health/ready` and the log name the failure: docs/reference/store.md.'
  },
  replay_full: {
    meaning: 'The replay store in memory is full. It never forgets a proof that could still be used, so it cannot ' +
      'record a new one.',
    cause: 'More DPoP requests came within `IDP_DPOP_IAT_OFFSET_SECONDS` than `DPOP_REPLAY_MAX` allows; in ' +
      'an attack, from a client that has a token.',
    cure: 'Raise `DPOP_REPLAY_MAX` (about 50 bytes each), shorten the offset, or use a Redis.'
  }
})
