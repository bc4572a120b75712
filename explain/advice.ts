import type { RefusalReason } from '../lib/refusal.ts'

/** What to know about a refusal, for the people who run or call the service. Never sent in an answer. */
export interface Advice {
  /** What the service found. */
  readonly meaning: string
  /** Why that usually happens. */
  readonly cause: string
  /** What to do about it. */
  readonly cure: string
}

/** One entry for each reason. From here come docs/errors.md and the words of the tools that explain a refusal. */
export const ADVICE: Readonly<Record<RefusalReason, Advice>> = Object.freeze({
  credentials_missing: {
    meaning: 'There is no `Authorization` header, or a scheme stands in it with nothing after it.',
    cause: 'The client called without a token; or a proxy or a redirect to another host dropped the header.',
    cure: 'Send `Authorization: DPoP <token>` (or `Bearer <token>`). If the client does send it, look at what the proxy passes on.'
  },
  scheme_not_offered: {
    meaning: 'The scheme of the `Authorization` header is not one that this service accepts.',
    cause: 'Bearer where only DPoP is accepted, DPoP where it is switched off, or a scheme that carries no access token, such as Basic.',
    cure: 'Use a scheme that the `WWW-Authenticate` header of the answer names. Which ones there are is decided by `IDP_DPOP_MODE` (or `DPOP_ENABLED` and `DPOP_REQUIRED`).'
  },
  headers_uncounted: {
    meaning: 'The request has as many header lines as Node keeps, 1,000 unless the server sets `maxHeadersCount`. It drops those beyond without a word, so a second `Authorization`, `DPoP` or `Host` line, or what a proxy appended, cannot be ruled out.',
    cause: 'An attempt to hide a line behind the others, or a client that repeats one without end.',
    cure: 'Send fewer header lines. No client needs more than some dozens.'
  },
  authorization_repeated: {
    meaning: 'The request has two or more `Authorization` lines. Which of them counts would depend on who reads them.',
    cause: 'A client library and the code around it both add the header, or a gateway adds its own beside that of the client.',
    cure: 'Send the header once. Have a gateway replace the header, not add to it.'
  },
  authorization_malformed: {
    meaning: 'After the scheme there is something else than one token of the characters that a token can have.',
    cause: 'Quotes or white space around the token, two tokens, a line break that came along with the token from a file, or an undefined variable.',
    cure: 'Send the scheme, one space and the bare token.'
  },

  token_malformed: {
    meaning: 'The token is not three segments of base64url, of which the first two hold JSON objects.',
    cause: 'The provider issued an opaque or encrypted token, as many do when no API is named in the token request; or the token was cut or padded on its way.',
    cure: 'Name the API in the token request (`audience` or `resource`), and have the provider issue signed JWTs for it.'
  },
  token_algorithm: {
    meaning: 'The `alg` in the header of the token is not RS256.',
    cause: 'The API is registered with another signing algorithm, such as HS256 or ES256.',
    cure: 'Set the signing algorithm of the API to RS256 at the provider.'
  },
  token_type: {
    meaning: 'The `typ` in the header of the token is neither `at+jwt` nor `JWT`.',
    cause: 'Another kind of token was sent: an identity token, a logout token, or the DPoP proof in its place.',
    cure: 'Send the access token: `access_token` of the token response.'
  },
  token_critical: {
    meaning: 'The header of the token names extensions (`crit` or `b64`) that must be understood, and none is.',
    cause: 'The provider is set to add an extension to the tokens of this API.',
    cure: 'Switch the extension off for this API at the provider.'
  },
  token_claim_invalid: {
    meaning: 'One of `iss`, `sub`, `aud` and `exp` is missing, or one of them, `nbf` or `iat` is of the wrong type.',
    cause: 'The provider leaves a claim out (`sub`, for tokens without a user), or a rule at the provider rewrites one.',
    cure: 'Decode the token and compare its claims with RFC 9068 section 2.2; have the provider issue what is missing.'
  },
  token_issuer: {
    meaning: 'The `iss` of the token is not the configured issuer. A slash at the end makes no difference.',
    cause: 'The token is of another tenant or environment, or the provider has an issuer with a path, or a domain of its own.',
    cure: 'Compare `iss` with the issuer in the discovery document of the provider; set `IDP_DOMAIN`, or `IDP_ISSUER` where the issuer is not the bare domain.'
  },
  token_audience: {
    meaning: 'The `aud` of the token is not the configured audience, and does not hold it.',
    cause: 'The token was requested for another API or for none; or the two differ in a slash at the end, in case or in the scheme.',
    cure: 'Compare `aud` with `IDP_AUDIENCE` character by character, and name exactly that API in the token request.'
  },
  token_expired: {
    meaning: 'The `exp` of the token is in the past, the tolerance included.',
    cause: 'The client keeps a token longer than it lives; or the clock of this service is ahead.',
    cure: 'Get a new token before the old one ends (`expires_in` of the token response). If tokens are new, compare the clocks; `IDP_CLOCK_TOLERANCE_SECONDS` is for seconds, not for minutes.'
  },
  token_not_yet_valid: {
    meaning: 'The `nbf` of the token is in the future, the tolerance included.',
    cause: 'The clock of this service is behind that of the provider.',
    cure: 'Set the clock right (NTP).'
  },
  token_binding_unusable: {
    meaning: 'The token has a `cnf` claim that is not `{ "jkt": "..." }`. It is bound to something that cannot be checked here, and to ignore that would let a thief use it.',
    cause: 'The provider binds tokens to client certificates (`x5t#S256`), or a rule at the provider writes its own `cnf`.',
    cure: 'Have the provider bind the tokens of this API by DPoP, or not at all.'
  },
  token_key_unknown: {
    meaning: 'The key that the token names by `kid` is not among the usable keys of the provider.',
    cause: 'The token is of another environment, its key was withdrawn, or the key is not a usable one (RSA, 2048 to 4096 bits, for signing).',
    cure: 'Get a new token. If that does not help, look for the `kid` in the key set of the provider (`jwks_uri` of its discovery document), and at `IDP_JWKS_URI`.'
  },
  token_signature: {
    meaning: 'The signature of the token is not by the key of the provider.',
    cause: 'The token was changed after it was signed; or another provider uses the same `kid`.',
    cure: 'Send the token exactly as the provider gave it. Seen often, it is worth a look at who sends it.'
  },
  token_bound: {
    meaning: 'The token is bound to a key (`cnf.jkt`) and came with the Bearer scheme. Without the proof anyone who found the token could use it.',
    cause: 'A client that asked for a DPoP token calls with plain Bearer code; or a bound token was stolen.',
    cure: 'Send `Authorization: DPoP <token>` with a fresh proof in the `DPoP` header.'
  },
  token_unbound: {
    meaning: 'The token is not bound to a key (it has no `cnf.jkt`) and came with the DPoP scheme.',
    cause: 'DPoP is not switched on at the provider for this client or API, so that it issued a Bearer token although a proof came with the token request; or none came.',
    cure: 'Look at `token_type` of the token response: it must be `DPoP`. Switch DPoP on at the provider, and send a proof to its token endpoint.'
  },
  domain_has_scheme: {
    meaning: 'The service cannot verify any token, because its `IDP_DOMAIN` begins with a scheme.',
    cause: '`IDP_DOMAIN` was copied from the address line of a browser.',
    cure: 'Write the host alone: `tenant.example`, not `https://tenant.example/`. A provider with a path needs `IDP_ISSUER`.'
  },

  proof_beside_bearer: {
    meaning: 'A `DPoP` header came beside a Bearer token that is not bound to a key. It proves nothing, and the client believes that it does.',
    cause: 'The client makes proofs, but the provider gave it a Bearer token; or the scheme in `Authorization` was left at Bearer.',
    cure: 'Look at `token_type` of the token response. For `DPoP` use the DPoP scheme; for `Bearer` switch DPoP on at the provider, or leave the proof out.'
  },
  proof_missing: {
    meaning: 'The DPoP scheme was used without a `DPoP` header, or with an empty one.',
    cause: 'The client replaced `Bearer` by `DPoP` and nothing else; or a proxy, or a CORS preflight, did not let the header through.',
    cure: 'Send a fresh proof with each request. Have proxies pass the `DPoP` header on; for browsers list their origins in `CORS_ORIGINS`.'
  },
  proof_repeated: {
    meaning: 'There are two proofs, on two lines or joined by a comma.',
    cause: 'A retry adds a header where it should replace the first one; or two layers of the client make proofs.',
    cure: 'Send exactly one proof.'
  },
  proof_malformed: {
    meaning: 'The proof is not three segments of base64url without padding, of which the first two hold JSON objects.',
    cause: 'Padding, the alphabet of plain base64, a JWT library in another serialisation, or text cut on its way.',
    cure: 'Make the proof with a library for DPoP or for compact JWS.'
  },
  proof_too_large: {
    meaning: 'The proof is longer than 8 KiB.',
    cause: 'Claims of the application, or a whole token, were put into the proof.',
    cure: 'Keep to the claims of RFC 9449 section 4.2.'
  },
  proof_type: {
    meaning: 'The `typ` in the header of the proof is not `dpop+jwt`.',
    cause: 'The JWT library wrote its default `JWT`; or the access token was sent in the place of the proof.',
    cure: 'Set `typ` to `dpop+jwt`.'
  },
  proof_algorithm: {
    meaning: 'The `alg` of the proof is not one that is accepted.',
    cause: 'The key of the client is of another kind, or the algorithm is symmetric or `none`.',
    cure: 'Use one of `algs` in the `WWW-Authenticate` header of the answer; ES256 always works unless `DPOP_ALGS` says otherwise.'
  },
  proof_critical: {
    meaning: 'The header of the proof names extensions (`crit` or `b64`) that must be understood, and none is.',
    cause: 'The client signs with a profile of its own.',
    cure: 'Leave the extension out.'
  },
  proof_key: {
    meaning: 'The `jwk` of the proof is missing, or is not a public key of the type, curve and size that `alg` needs.',
    cause: 'The private key was exported with it, coordinates have lost a leading zero, the `alg` goes with another curve, or an RSA key is not of 2048 to 4096 bits.',
    cure: 'Put the public JWK alone into the header: `kty`, `crv`, `x`, `y` (EC), `kty`, `crv`, `x` (OKP) or `kty`, `n`, `e` (RSA). A key that was sent with its private half must not be used any more.'
  },
  proof_claim_invalid: {
    meaning: 'One of `jti`, `htm`, `htu`, `iat` and `ath` is missing or of the wrong type, `jti` is longer than 512 characters, or `exp` or `nbf` is no number.',
    cause: 'The proof was made for the token endpoint, where `ath` is not needed; or `iat` is text.',
    cure: 'Make a proof for this request, with `ath`: the base64url SHA-256 of the access token.'
  },
  proof_expired: {
    meaning: 'The `exp` of the proof is in the past.',
    cause: 'The proof was made ahead of time, or the clock of the client is behind.',
    cure: 'Make the proof just before the request. A proof needs no `exp`.'
  },
  proof_not_yet_valid: {
    meaning: 'The `nbf` of the proof is in the future.',
    cause: 'The clock of the client is ahead.',
    cure: 'Leave `nbf` out, or set the clock right.'
  },
  htm_mismatch: {
    meaning: 'The `htm` of the proof is not the method of the request. Case counts.',
    cause: 'The proof was made for another request, `htm` is in lower case, or something on the way changed the method.',
    cure: 'Make a proof for each request, with its method in upper case.'
  },
  htu_invalid: {
    meaning: 'The `htu` of the proof is not an absolute http or https URL, or holds a user name.',
    cause: 'A path alone was put into `htu`, or a URL with credentials.',
    cure: 'Put the whole URL of the request into `htu`, without query and fragment.'
  },
  htu_mismatch: {
    meaning: 'The `htu` of the proof is not the URL that the client used, as this service makes it out. The log line holds both URLs and where they part ways.',
    cause: 'A proxy in front changes scheme, host, port or path, and the service was not told; or the proof was made before a redirect, or for another endpoint.',
    cure: 'Behind a proxy set `PUBLIC_URL`, or `TRUST_PROXY` with the `X-Forwarded-*` headers: docs/behind-a-proxy.md. Otherwise make the proof for the very URL that is requested.'
  },
  iat_too_old: {
    meaning: 'The `iat` of the proof is further in the past than `IDP_DPOP_IAT_OFFSET_SECONDS`.',
    cause: 'A proof was kept and used again, the request waited in a queue, or the clock of the client is behind.',
    cure: 'Make the proof just before the request, and set the clock right. For clients whose clocks cannot be trusted switch nonces on: `DPOP_NONCE=required`.'
  },
  iat_in_future: {
    meaning: 'The `iat` of the proof is further in the future than `IDP_DPOP_IAT_LEEWAY_SECONDS`.',
    cause: 'The clock of the client is ahead, or `iat` is in milliseconds.',
    cure: 'Write `iat` in seconds, and set the clock right. For clients whose clocks cannot be trusted switch nonces on: `DPOP_NONCE=required`.'
  },
  ath_mismatch: {
    meaning: 'The `ath` of the proof is not the hash of the token in the `Authorization` header.',
    cause: 'The token was renewed after the proof was made; or `ath` is in hex, padded, or the hash of something else.',
    cure: 'Make `ath` as the base64url SHA-256, without padding, of the very token that is sent.'
  },
  jkt_mismatch: {
    meaning: 'The proof is by another key than the one that the token is bound to: the thumbprint of its `jwk` is not `cnf.jkt`.',
    cause: 'The client made a new key after it got the token; two clients share a store of tokens; or the token was stolen, and this is DPoP at work.',
    cure: 'Keep the key as long as the token, and get a new token with a new key. Seen from unknown places, take it for a stolen token.'
  },
  proof_signature: {
    meaning: 'The signature of the proof is not by the key in its header.',
    cause: 'An ECDSA signature in DER where r and s side by side are needed, another key or digest than the header says, or a proof changed on its way.',
    cure: 'Sign with a library for JWS, by the private half of the `jwk`.'
  },
  nonce_missing: {
    meaning: 'Nonces are required, and the proof has none. The answer brings one in `DPoP-Nonce`.',
    cause: 'The first request of a client, as a rule: it cannot have a nonce yet.',
    cure: 'Make a new proof with the nonce of the answer and send the request once more; keep the newest `DPoP-Nonce` for the next. Most libraries do so by themselves.'
  },
  nonce_stale: {
    meaning: 'The nonce of the proof was not made by this service, or more than five minutes ago.',
    cause: 'The client was idle; it uses a nonce of the token endpoint here; or two instances have different secrets.',
    cure: 'Take the nonce of the answer and send the request once more, with a new proof. Give every instance the same `DPOP_NONCE_SECRET`.'
  },
  proof_replayed: {
    meaning: 'A proof with this key and `jti` has passed before.',
    cause: 'The client or a proxy sent the same request twice (a retry after a timeout), the client keeps its proofs, or someone recorded the request and plays it back.',
    cure: 'Make a proof, with a new `jti`, for every request and every retry. Have proxies not retry by themselves.'
  },

  host_invalid: {
    meaning: 'The URL that the client used cannot be told, because the `Host` header is missing or is not a host.',
    cause: 'A client of HTTP/1.0, a proxy that sets `Host` to a name of its own with characters that no host has, or an attempt to confuse.',
    cure: 'Have the proxy pass the `Host` header on, or set `PUBLIC_URL`.'
  },
  host_repeated: {
    meaning: 'The request has two or more `Host` lines. Which of them counts would depend on who reads them.',
    cause: 'A proxy adds `Host` where it should replace it, or an attempt to confuse.',
    cure: 'Have the proxy set `Host` once.'
  },
  target_authority: {
    meaning: 'The request line holds a whole URL, and its host or scheme is not that of the `Host` header and the connection.',
    cause: 'A client takes this service for a forward proxy, or an attempt to confuse.',
    cure: 'Send the path alone in the request line.'
  },
  target_path: {
    meaning: 'The path of the request can be read in two ways: it holds dot segments, back-slashes, control characters, a fragment, bytes outside ASCII or a broken escape.',
    cause: 'A client that does not normalise its URLs, or an attempt to reach another resource than the proof is for.',
    cure: 'Send the path in its normal form: dot segments resolved, other bytes as `%xx`.'
  },
  forwarded_invalid: {
    meaning: 'A forwarded header of the trusted proxy (`X-Forwarded-Proto`, `-Host`, `-Port`, `-Prefix` or `Forwarded`) holds what is no scheme, host, port or path. The log line names the header.',
    cause: 'A proxy set to send an empty value or a variable that it does not know; or one that passes on what clients send.',
    cure: 'Have the proxy set the header itself, to the value that the client used: docs/behind-a-proxy.md.'
  },

  scope_missing: {
    meaning: 'Token and proof are good, and the token lacks a permission that the route needs. The `scope` of the challenge names it.',
    cause: 'The client did not ask for the permission, was not granted it, or the provider writes permissions to another claim.',
    cure: 'Ask for the scope in the token request and grant it at the provider. Where permissions stand in `scp` or `permissions`, set `IDP_SCOPE_CLAIMS`.'
  },

  rate_limited: {
    meaning: 'Token and proof are good, and the client has used up its requests for this minute, as `RATE_LIMIT` sets them. A client is the key of a bound token, and the `sub` of another.',
    cause: 'A loop or a retry without a pause; several users or programs behind one `sub`; or a limit that is too low for an honest client.',
    cure: 'Clients wait for `Retry-After` seconds. Give programs tokens of their own, or raise `RATE_LIMIT`.'
  },

  replay_share_exceeded: {
    meaning: 'Token and proof are good, and the key of the client holds a quarter of `DPOP_REPLAY_MAX` in the memory of used proofs: as much as one key may, so that none can fill it for others. Bearer requests and other clients are not concerned.',
    cause: 'A client that calls without a pause, or many programs with one key: more than `DPOP_REPLAY_MAX` / 4 requests within `IDP_DPOP_IAT_OFFSET_SECONDS` and some seconds, 1,600 each second as both are shipped.',
    cure: 'Clients slow down, and try again after `Retry-After`: room comes as their proofs expire. Give programs keys of their own, raise `DPOP_REPLAY_MAX`, shorten the offset, or use a Redis, which has no shares. `RATE_LIMIT` sets a lower bound for each client.'
  },

  keys_unavailable: {
    meaning: 'The key that is needed is not at hand, and the provider cannot be reached for it. The request may be good.',
    cause: 'The provider is down, or the way to it is closed: DNS, firewall, proxy, TLS.',
    cure: 'Clients try again after `Retry-After`. The log and the metric `holdfast_keys_last_failure` name the failure: docs/operating.md.'
  },
  replay_unavailable: {
    meaning: 'Whether the proof was used before cannot be told, because the shared replay store does not answer. The request may be good.',
    cause: 'Redis is down, slow, full, or refuses the service.',
    cure: 'Clients try again after `Retry-After`. `/health/ready` and the log name the failure: docs/operating.md.'
  },
  replay_full: {
    meaning: 'The memory of used proofs is full of ones that still count, and none is ever forgotten early.',
    cause: 'More requests with DPoP within `IDP_DPOP_IAT_OFFSET_SECONDS` than `DPOP_REPLAY_MAX` entries; under attack, by a client that has a token.',
    cure: 'Raise `DPOP_REPLAY_MAX` (about 100 bytes each), shorten the offset, or share a Redis between instances.'
  }
})
