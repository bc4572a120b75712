import { readFileSync } from 'node:fs'

/** A test at the top of a file, by its title. The title of a whole file is its path. */
export interface NamedTest {
  readonly file: string
  readonly title: string
}

/** One fault: a text that a source file holds exactly once, and its replacement. */
export interface Fault {
  /**
   * The point of test/reports/reviews.md that the fault breaks, after the first two words of its section: `RFC 9449
   * 11.1`.
   */
  readonly point: string
  /** What is wrong then. */
  readonly fault: string
  readonly file: string
  readonly text: string
  readonly replacement: string
  /**
   * Those of the point's tests that must fail: files, or `file: beginning of a title`. If left out, all of them must.
   */
  readonly seenBy?: readonly string[]
}

const PROOF = 'lib/dpop/proof.ts'
const CLIENT_KEYS = 'lib/dpop/client-keys.ts'
const PUBLIC_KEY = 'lib/jose/public-key.ts'
const JWT = 'lib/jose/signed-jwt.ts'
const CHECKS = 'lib/token/jwt-checks.ts'
const METADATA = 'lib/assembly/resource-metadata.ts'
const WELL_KNOWN = 'routes/well-known.ts'

const SET = 'lib/revocation/security-event-token.ts'
const RECEIVER = 'lib/revocation/receiver.ts'
const CONFIGURATION = 'lib/revocation/transmitter/configuration.ts'

const PROOFS = 'test/plugins/proofs.test.ts'
const TOKENS = 'test/plugins/tokens.test.ts'
const ALGORITHMS = 'test/plugins/algorithms.test.ts'
const CERTIFICATES = 'test/plugins/certificates.test.ts'
const DIFFERENTIAL = 'test/fuzz/differential.test.ts'
const GATE = 'test/plugins/gate.test.ts'
const EVENTS = 'test/plugins/revocation-events.test.ts'
const CONFIGURATION_TEST = 'test/lib/revocation/transmitter/client.test.ts'
const REQUEST_LOG = 'test/plugins/request-log.test.ts'

/** At least one fault for each test that a point of test/reports/reviews.md names. */
export const FAULTS: readonly Fault[] = [
  {
    point: 'RFC 9449 11.1',
    fault: 'each proof is new',
    file: PROOF,
    text: "done(refusal ?? (first ? null : new Refusal('proof_replayed')))",
    replacement: 'done(refusal)',
    seenBy: [PROOFS]
  },
  {
    point: 'RFC 9449 11.1',
    fault: 'a record does not check whether the key exists',
    file: 'lib/redis/redis-link.ts',
    text: "const args = ifAbsent ? [key, '1', 'EX', String(ttlSeconds), 'NX'] :",
    replacement: 'const args =',
    seenBy: ['test/system/redis.test.ts']
  },
  {
    point: 'RFC 9449 11.1',
    fault: 'the URL is part of the record',
    file: PROOF,
    text: 'presented.header!.jkt + presented.claims!.jti,',
    replacement: 'presented.header!.jkt + presented.claims!.jti + presented.claims!.htu,',
    seenBy: [`${PROOFS}: 12: a jti passes once`]
  },
  {
    point: 'RFC 9449 11.2',
    fault: 'a nonce is good for an hour',
    file: 'lib/dpop/nonces.ts',
    text: 'NONCE_LIFETIME_SECONDS = 300',
    replacement: 'NONCE_LIFETIME_SECONDS = 3600',
    seenBy: [`${PROOFS}: 11: nonces`]
  },
  {
    point: 'RFC 9449 11.2',
    fault: 'iat may be one second further ahead',
    file: PROOF,
    text: 'const newest = now + iatLeewaySeconds',
    replacement: 'const newest = now + iatLeewaySeconds + 1',
    seenBy: [`${PROOFS}: 7: iat may be`]
  },
  {
    point: 'RFC 9449 11.3',
    fault: 'a proof without a nonce passes',
    file: PROOF,
    text: "if (typeof nonce !== 'string') throw new Refusal('nonce_missing')",
    replacement: "if (typeof nonce !== 'string') { presented.expiresAt = presented.now + 300; return }"
  },
  {
    point: 'RFC 9449 11.4',
    fault: 'nonces of any time pass',
    file: PROOF,
    text: 'if (presented.expiresAt === undefined) { throw new Refusal(nonces.isOfAnotherProcess(nonce) ? ' +
      "'nonce_of_another_instance' : 'nonce_stale') }",
    replacement: 'presented.expiresAt ??= presented.now + 300'
  },
  {
    point: 'RFC 9449 11.5',
    fault: 'a proof may have any typ',
    file: CLIENT_KEYS,
    text: "return isMediaType(typ, 'dpop+jwt')",
    replacement: 'return typ !== true',
    seenBy: [PROOFS]
  },
  {
    point: 'RFC 9449 11.5',
    fault: 'a token may have any typ',
    file: CHECKS,
    text: "return typ === undefined || isMediaType(typ, 'at+jwt') ||",
    replacement: 'return typ !== true ||',
    seenBy: [TOKENS]
  },
  {
    point: 'RFC 9449 11.6',
    fault: 'all known algorithms count',
    file: CLIENT_KEYS,
    text: 'headerFault(header, algs, isProofType)',
    replacement: 'headerFault(header, Object.keys(ALGORITHMS) as JwsAlg[], isProofType)'
  },
  {
    point: 'RFC 9449 11.7',
    fault: 'the method is not compared',
    file: PROOF,
    text: "if (claims!.htm !== method) throw new Refusal('htm_mismatch')",
    replacement: '',
    seenBy: [PROOFS]
  },
  {
    point: 'RFC 9449 11.7',
    fault: 'a fragment in the request is cut off',
    file: 'lib/url/request-url.ts',
    text: "const query = target.indexOf('?')",
    replacement: 'const query = target.search(/[?#]/)',
    seenBy: ['test/lib/url/request-url.test.ts']
  },
  {
    point: 'RFC 9449 11.8',
    fault: 'the key is not that of the token',
    file: PROOF,
    text: "if (header!.jkt !== tokenJkt) throw new Refusal('jkt_mismatch')",
    replacement: ''
  },
  {
    point: 'RFC 9449 11.10',
    fault: 'a binding that cannot be checked is ignored',
    file: CHECKS,
    text: "throw new Refusal('token_binding_unusable')",
    replacement: 'return'
  },
  {
    point: 'RFC 9449 11.11',
    fault: 'the key takes the place of the subject',
    file: 'lib/guard/admission.ts',
    text: 'request.user = token.claims',
    replacement: 'request.user = token.binding.jkt ? { ...token.claims, sub: token.binding.jkt } : token.claims'
  },

  {
    point: 'RFC 8725 3.1',
    fault: 'alg may be in another case',
    file: JWT,
    text: 'algs.some(name => name === alg)',
    replacement: 'algs.some(name => name.toLowerCase() === String(alg).trim().toLowerCase())',
    seenBy: [`${ALGORITHMS}: The algorithm`]
  },
  {
    point: 'RFC 8725 3.1',
    fault: 'a key is used for each algorithm of its type',
    file: PUBLIC_KEY,
    text: "return ofKey === undefined ? kty !== 'AKP' : isSameAlg(ofKey, alg)",
    replacement: 'return true',
    seenBy: [`${ALGORITHMS}: No key`]
  },
  {
    point: 'RFC 8725 3.2',
    fault: 'any signature verifies',
    file: 'server/fastify-jwt.ts',
    text: 'isValid = !error',
    replacement: 'isValid = true'
  },
  {
    point: 'RFC 8725 3.3',
    fault: 'any signature verifies',
    file: 'server/fastify-jwt.ts',
    text: 'isValid = !error',
    replacement: 'isValid = true',
    seenBy: [TOKENS]
  },
  {
    point: 'RFC 8725 3.3',
    fault: 'any signature of a proof verifies',
    file: PROOF,
    text: "if (!isValid) return done(new Refusal('proof_signature'))",
    replacement: '',
    seenBy: [DIFFERENTIAL]
  },
  {
    point: 'RFC 8725 3.4',
    fault: 'coordinates may be short',
    file: PUBLIC_KEY,
    text: "typeof value === 'string' && value.length === Math.ceil(length * 8 / 6)",
    replacement: "typeof value === 'string' && value.length <= Math.ceil(length * 8 / 6)",
    seenBy: [`${PROOFS}: Which proofs`, ALGORITHMS]
  },
  {
    point: 'RFC 8725 3.4',
    fault: 'RSA keys may have 1024 bits',
    file: PUBLIC_KEY,
    text: 'const MIN_MODULUS_BITS = 2048',
    replacement: 'const MIN_MODULUS_BITS = 1024',
    seenBy: [`${PROOFS}: Which proofs`, ALGORITHMS]
  },
  {
    point: 'RFC 8725 3.4',
    fault: 'RSA keys may have more than 4096 bits',
    file: PUBLIC_KEY,
    text: 'const MAX_MODULUS_BITS = 4096',
    replacement: 'const MAX_MODULUS_BITS = 8192',
    seenBy: [ALGORITHMS]
  },
  {
    point: 'RFC 8725 3.4',
    fault: 'exponents may be even',
    file: PUBLIC_KEY,
    text: ' || bytes.at(-1)! % 2 === 0',
    replacement: '',
    seenBy: [`${PROOFS}: Which proofs`, ALGORITHMS]
  },
  {
    point: 'RFC 8725 3.4',
    fault: 'a point off its curve is a fault of our own',
    file: PROOF,
    text: "if (!key) return done(new Refusal('proof_key'))",
    replacement: '',
    seenBy: [`${PROOFS}: 10: a point`]
  },
  {
    point: 'RFC 8725 3.5',
    fault: 'a secret of 16 bytes is enough',
    file: 'lib/settings/formats.ts',
    text: 'const MIN_SECRET_BYTES = 32',
    replacement: 'const MIN_SECRET_BYTES = 16'
  },
  {
    point: 'RFC 8725 3.6',
    fault: 'five segments are read as three',
    file: JWT,
    text: 'const signature = text.slice(second + 1)',
    replacement: "const signature = text.slice(second + 1).split('.', 1)[0]!"
  },
  {
    point: 'RFC 8725 3.7',
    fault: 'bytes that are not UTF-8 are replaced',
    file: JWT,
    text: 'if (!isUtf8(bytes)) return undefined',
    replacement: ''
  },
  {
    point: 'RFC 8725 3.7',
    fault: 'base64url has many spellings',
    file: JWT,
    text: 'return last === undefined || last.includes(text[text.length - 1]!)',
    replacement: 'return true'
  },
  {
    point: 'RFC 8725 3.8',
    fault: 'sub may be empty',
    file: 'lib/token/claims.ts',
    text: "isText(value) && value !== ''",
    replacement: 'isText(value)',
    seenBy: [TOKENS]
  },
  {
    point: 'RFC 8725 3.8',
    fault: 'the first issuer has all tokens',
    file: 'lib/token/issuer-table.ts',
    text: 'find: async iss => bySpelling.get(iss),',
    replacement: 'find: async iss => bySpelling.get(iss) && issuers[0],',
    seenBy: ['test/plugins/issuers.test.ts']
  },
  {
    point: 'RFC 8725 3.9',
    fault: 'any audience passes',
    file: CHECKS,
    text: "if (claim !== undefined) { throw new Refusal('token_audience'",
    replacement: "if (claim !== undefined && claims![claim] === '') { throw new Refusal('token_audience'"
  },
  {
    point: 'RFC 8725 3.10',
    fault: 'a kid that is not published is left out',
    file: 'lib/provider/key-set.ts',
    text: '(kid === undefined || key.kid === kid) && ',
    replacement: '',
    seenBy: [TOKENS]
  },
  {
    point: 'RFC 8725 3.10',
    fault: 'a symmetric or private jwk counts',
    file: PUBLIC_KEY,
    text: "if (PRIVATE_MEMBERS.some(name => Object.hasOwn(jwk, name))) return 'private_key'",
    replacement: '',
    seenBy: [PROOFS]
  },
  {
    point: 'RFC 8725 3.10',
    fault: 'each unknown kid causes a fetch',
    file: 'lib/provider/key-source.ts',
    text: 'if (until > steadyMs() + REFETCH_RESERVE * REFETCH_GAP_MS) return false',
    replacement: '',
    seenBy: ['test/plugins/keys.test.ts']
  },
  {
    point: 'RFC 8725 3.11',
    fault: 'a token may have any typ',
    file: CHECKS,
    text: "return typ === undefined || isMediaType(typ, 'at+jwt') ||",
    replacement: 'return typ !== true ||',
    seenBy: [TOKENS]
  },
  {
    point: 'RFC 8725 3.11',
    fault: 'a proof may have any typ',
    file: CLIENT_KEYS,
    text: "return isMediaType(typ, 'dpop+jwt')",
    replacement: 'return typ !== true',
    seenBy: [PROOFS]
  },
  {
    point: 'RFC 8725 3.12',
    fault: 'a proof may have any typ',
    file: CLIENT_KEYS,
    text: "return isMediaType(typ, 'dpop+jwt')",
    replacement: 'return typ !== true',
    seenBy: [PROOFS]
  },
  {
    point: 'RFC 8725 3.12',
    fault: 'a signed answer may have any typ',
    file: 'lib/introspection/signed-answer.ts',
    text: "return isMediaType(typ, 'token-introspection+jwt')",
    replacement: 'return typ !== true',
    seenBy: ['test/plugins/introspection.test.ts']
  },

  {
    point: 'RFC 9700 2.2.1',
    fault: 'a bound token passes as Bearer',
    file: 'lib/guard/guard.ts',
    text: "if (jkt !== undefined) throw new Refusal('token_bound')",
    replacement: '',
    seenBy: ['test/plugins/modes.test.ts']
  },
  {
    point: 'RFC 9700 2.2.1',
    fault: 'an unbound token passes under the profile',
    file: CHECKS,
    text: "if (neededBindings) throw new Refusal('token_not_sender_constrained')",
    replacement: '',
    seenBy: [CERTIFICATES]
  },
  {
    point: 'RFC 9700 2.3',
    fault: 'any audience passes',
    file: CHECKS,
    text: "if (claim !== undefined) { throw new Refusal('token_audience'",
    replacement: "if (claim !== undefined && claims![claim] === '') { throw new Refusal('token_audience'",
    seenBy: [TOKENS]
  },
  {
    point: 'RFC 9700 2.3',
    fault: 'one scope of several is enough',
    file: 'lib/requirement/judge.ts',
    text: 'if (scope && !scope.every(isGranted))',
    replacement: 'if (scope && !scope.some(isGranted))',
    seenBy: ['test/plugins/require.test.ts']
  },
  {
    point: 'RFC 9700 2.6',
    fault: 'any certificate passes',
    file: 'lib/provider/transport.ts',
    text: 'const tls = { rejectUnauthorized: true,',
    replacement: 'const tls = { rejectUnauthorized: false,',
    seenBy: ['test/lib/provider/transport.test.ts']
  },
  {
    point: 'RFC 9700 2.6',
    fault: 'http passes anywhere',
    file: 'lib/provider/provider-url.ts',
    text: "(url.protocol === 'https:' || isLoopbackHttp(url))",
    replacement: "(url.protocol === 'https:' || url.protocol === 'http:')",
    seenBy: ['test/lib/provider/key-set.test.ts']
  },
  {
    point: 'RFC 9700 4.3.2',
    fault: 'a token in the query or in a cookie counts',
    file: 'lib/message.ts',
    text: '    const { rawHeaders } = received\n',
    replacement: '    const { rawHeaders } = received\n    const other = /access_token=([^&;]*)/.exec(received.url + ' +
      "rawHeaders.join())\n    if (other) { this.authorization = 'Bearer ' + other[1]; this.authorizationCount++ " +
      '}\n',
    seenBy: [CERTIFICATES]
  },
  {
    point: 'RFC 9700 4.3.2',
    fault: 'the log has the query',
    file: 'plugins/auth/refuser.ts',
    text: 'route: decisions.routeOf(request).route, issuer',
    replacement: 'route: request.url, issuer',
    seenBy: [REQUEST_LOG]
  },
  {
    point: 'RFC 9700 4.9.1',
    fault: 'only the path is compared',
    file: 'lib/url/request-url.ts',
    text: 'if (parsed.href === url.href) return',
    replacement: 'if (parsed.path === url.path) return'
  },
  {
    point: 'RFC 9700 4.9.2',
    fault: 'the log has the token',
    file: 'plugins/auth/refuser.ts',
    text: '{ reason, route: decisions.routeOf(request).route, issuer, ...detail }',
    replacement: '{ reason, route: decisions.routeOf(request).route, issuer, ...detail, authorization: ' +
      'request.headers.authorization }',
    seenBy: [REQUEST_LOG]
  },
  {
    point: 'RFC 9700 4.9.2',
    fault: 'credentials always arrive',
    file: 'lib/gate/headers.ts',
    text: '? passCredentials :',
    replacement: '? true :',
    seenBy: [`${GATE}: The upstream`]
  },
  {
    point: 'RFC 9700 4.9.2',
    fault: 'credentials never arrive',
    file: 'lib/gate/headers.ts',
    text: '? passCredentials :',
    replacement: '? false :',
    seenBy: [`${GATE}: Credentials`]
  },
  {
    point: 'RFC 9700 4.10.1',
    fault: 'a bound token passes as Bearer',
    file: 'lib/guard/guard.ts',
    text: "if (jkt !== undefined) throw new Refusal('token_bound')",
    replacement: ''
  },
  {
    point: 'RFC 9700 4.10.2',
    fault: 'any audience passes',
    file: CHECKS,
    text: "if (claim !== undefined) { throw new Refusal('token_audience'",
    replacement: "if (claim !== undefined && claims![claim] === '') { throw new Refusal('token_audience'"
  },
  {
    point: 'RFC 9700 4.13',
    fault: 'each peer is trusted',
    file: 'lib/url/base-url.ts',
    text: 'if (isTrusted(message.remoteAddress))',
    replacement: 'if (isTrusted)',
    seenBy: ['test/lib/url/request-url.test.ts']
  },
  {
    point: 'RFC 9700 4.13',
    fault: 'a certificate counts from each peer',
    file: 'lib/certificate/client-certificate.ts',
    text: 'if (!isTrustedPeer(received.socket.remoteAddress)) return missing()',
    replacement: '',
    seenBy: [CERTIFICATES]
  },
  {
    point: 'RFC 9700 4.13',
    fault: 'Forwarded of a client arrives beside ours',
    file: 'lib/gate/headers.ts',
    text: ", 'x-real-ip', 'forwarded'",
    replacement: ", 'x-real-ip'",
    seenBy: [`${GATE}: The upstream gets exactly`]
  },
  {
    point: 'RFC 9700 4.13',
    fault: 'X-Forwarded-Host of a client arrives beside ours',
    file: 'lib/gate/headers.ts',
    text: 'read.startsWith(prefix))',
    replacement: "read.startsWith(prefix) && name !== 'x-forwarded-host')",
    seenBy: [`${GATE}: The upstream gets exactly`]
  },
  {
    point: 'RFC 9700 4.13',
    fault: 'X-Forwarded-Proto of a client arrives beside ours',
    file: 'lib/gate/headers.ts',
    text: 'read.startsWith(prefix))',
    replacement: "read.startsWith(prefix) && name !== 'x-forwarded-proto')",
    seenBy: [`${GATE}: The upstream gets exactly`]
  },
  {
    point: 'RFC 9700 4.13',
    fault: 'X-Auth-Subject of a client arrives beside ours',
    file: 'lib/gate/headers.ts',
    text: ' || isIdentityName(read)',
    replacement: '',
    seenBy: [`${GATE}: The upstream`]
  },
  {
    point: 'RFC 9700 4.15',
    fault: 'an opaque token without sub has the name of its issuer',
    file: 'lib/token/inquiry.ts',
    text: 'sub: answer.sub ?? answer.client_id',
    replacement: 'sub: answer.sub ?? rules.issuer'
  },

  {
    point: 'RFC 9728 7.1',
    fault: 'RESOURCE may be an http URL',
    file: 'lib/settings/formats.ts',
    text: "return url?.protocol === 'https:' && url.username",
    replacement: 'return url !== undefined && url.username'
  },
  {
    point: 'RFC 9728 7.2',
    fault: 'no scope is published',
    file: WELL_KNOWN,
    text: '[...guardedScopes].sort()',
    replacement: '[]'
  },
  {
    point: 'RFC 9728 7.3',
    fault: 'the request says what the resource is',
    file: 'lib/url/base-url.ts',
    text: 'if (publicBase !== undefined) return publicBase',
    replacement: '',
    seenBy: ['test/plugins/resource-metadata.test.ts: With PUBLIC_URL']
  },
  {
    point: 'RFC 9728 7.3',
    fault: 'an answer for one client may be kept',
    file: WELL_KNOWN,
    text: "settings.server.publicUrl === undefined ? 'no-store' :",
    replacement: '',
    seenBy: ['test/plugins/resource-metadata.test.ts: Without PUBLIC_URL']
  },
  {
    point: 'RFC 9728 7.4',
    fault: 'a token for the resource is refused',
    file: CHECKS,
    text: 'isForOneOf(claims.aud, [audience, resource])',
    replacement: 'isForOneOf(claims.aud, [audience])'
  },
  {
    point: 'RFC 9728 7.4',
    fault: 'a token for any resource passes',
    file: CHECKS,
    text: 'isForOneOf(claims.aud, [audience, resource])',
    replacement: '(resource !== undefined || isForOneOf(claims.aud, [audience]))'
  },
  {
    point: 'RFC 9728 7.5',
    fault: 'another member is served',
    file: WELL_KNOWN,
    text: 'return reply.send(metadata)',
    replacement: "return reply.type('application/json').serializer(() => JSON.stringify({ ...metadata, issuer: " +
      'metadata.resource })).send(metadata)'
  },
  {
    point: 'RFC 9728 7.6',
    fault: 'no issuer is named',
    file: METADATA,
    text: 'servers.length === 0 ? {} :',
    replacement: 'servers.length >= 0 ? {} :'
  },
  {
    point: 'RFC 9728 7.10',
    fault: 'nothing may be kept',
    file: WELL_KNOWN,
    text: "settings.server.publicUrl === undefined ? 'no-store' :",
    replacement: "true ? 'no-store' :"
  },

  {
    point: 'RFC 8417 5.1',
    fault: 'any signature of an event verifies',
    file: SET,
    text:
      "throw new SetError('invalid_key', 'The signature of the token cannot be verified with a key of its issuer.')",
    replacement: ''
  },
  {
    point: 'RFC 8417 5.2',
    fault: 'a push needs no header',
    file: RECEIVER,
    text: 'return given !== undefined && timingSafeEqual(',
    replacement: 'return given === undefined || timingSafeEqual(',
    seenBy: [`${EVENTS}: A push`]
  },
  {
    point: 'RFC 8417 5.2',
    fault: 'any signature of an event verifies',
    file: SET,
    text:
      "throw new SetError('invalid_key', 'The signature of the token cannot be verified with a key of its issuer.')",
    replacement: '',
    seenBy: [`${EVENTS}: A security`]
  },
  {
    point: 'RFC 8417 5.2',
    fault: 'an event that is not stored is acknowledged',
    file: RECEIVER,
    text: 'await append(entries)\n    return { sender: sender.name',
    replacement: 'await append(entries).catch(() => {})\n    return { sender: sender.name',
    seenBy: ['test/lib/revocation/transmitter/transmitter.test.ts']
  },
  {
    point: 'RFC 8417 5.3',
    fault: 'the last entry counts, not the latest',
    file: 'lib/revocation/merged-table.ts',
    text: 'merged.first = Math.max(merged.first, first)',
    replacement: 'merged.first = first'
  },
  {
    point: 'RFC 8417 5.4',
    fault: 'a token of the future is newer than any event',
    file: 'lib/revocation/cutoffs.ts',
    text: 'issuedAt > latest || ',
    replacement: ''
  },
  {
    point: 'RFC 8417 5.5',
    fault: 'an event may have any typ',
    file: SET,
    text: 'isMediaType(typ, type) || (isUntyped',
    replacement: 'type !== undefined || (isUntyped',
    seenBy: [EVENTS]
  },
  {
    point: 'RFC 8417 5.5',
    fault: 'an access token may have events',
    file: CHECKS,
    text: "Object.hasOwn(claims, 'events') || ",
    replacement: '',
    seenBy: [TOKENS]
  },

  {
    point: 'RFC 8935 5.1',
    fault: 'any signature of an event verifies',
    file: SET,
    text:
      "throw new SetError('invalid_key', 'The signature of the token cannot be verified with a key of its issuer.')",
    replacement: '',
    seenBy: [`${EVENTS}: A security`]
  },
  {
    point: 'RFC 8935 5.1',
    fault: 'a push needs no header',
    file: RECEIVER,
    text: 'return given !== undefined && timingSafeEqual(',
    replacement: 'return given === undefined || timingSafeEqual(',
    seenBy: [`${EVENTS}: A push`]
  },
  {
    point: 'RFC 8935 5.1',
    fault: 'keys may be at another host',
    file: CONFIGURATION,
    text: 'jwksUri: parseOwnUri(jwksUri, origins)',
    replacement: 'jwksUri',
    seenBy: [CONFIGURATION_TEST]
  },
  {
    point: 'RFC 8935 5.3',
    fault: 'an endpoint may be http',
    file: CONFIGURATION,
    text: '? parseOwnUri(value, origins) : undefined',
    replacement: '? value : undefined'
  },
  {
    point: 'RFC 8935 5.4',
    fault: 'an event may have 1 MiB',
    file: SET,
    text: 'const MAX_SET_BYTES = 64 * 1024',
    replacement: 'const MAX_SET_BYTES = 1024 * 1024',
    seenBy: [EVENTS]
  },
  {
    point: 'RFC 8935 5.4',
    fault: 'whoever holds the room keeps it',
    file: 'lib/revocation/event-body.ts',
    text: "givesWay: 'oldest'",
    replacement: "givesWay: 'newest'",
    seenBy: ['test/plugins/revocation-bodies.test.ts']
  },
  {
    point: 'RFC 8935 5.4',
    fault: 'a forged event is verified anew under each key',
    file: SET,
    text: 'return findSigner(text, candidates.slice(0, MAX_TRIED_KEYS), alg)',
    replacement: 'return candidates.find(key => findSigner(text, [key], alg))',
    seenBy: ['test/plugins/revocation-costs.test.ts']
  },
  {
    point: 'RFC 8935 5.4',
    fault: 'each unknown kid causes a fetch',
    file: 'lib/provider/key-source.ts',
    text: 'if (until > steadyMs() + REFETCH_RESERVE * REFETCH_GAP_MS) return false',
    replacement: '',
    seenBy: ['test/plugins/keys.test.ts']
  },
  {
    point: 'RFC 8935 5.5',
    fault: 'an event is stored before its signature is verified',
    file: RECEIVER,
    text: '    const event = eventIn(set)\n',
    replacement:
      '    const event = eventIn(set)\n    await append(effectsOf(event, sender.subjectRules, now()).entries)\n'
  },

  {
    point: 'Shared Signals Subject probing',
    fault: 'a subject that no token can have is 404',
    file: 'routes/revocation.ts',
    text: 'return await reply.code(status).send()',
    replacement: "return await reply.code(received.outcome === 'unmapped' ? 404 : status).send()"
  },
  {
    point: 'Shared Signals Information harvesting, malicious subject removal',
    fault: 'the transmitter gets more than it must know',
    file: 'lib/revocation/transmitter/poll.ts',
    text: 'ack: acknowledged,',
    replacement: "ack: [...acknowledged, 'subject'],"
  },
  {
    point: 'Shared Signals Events about others',
    fault: 'an event counts for each issuer',
    file: 'lib/revocation/subject.ts',
    text: "if (tokenIssuers.includes('*')) return [iss]",
    replacement: 'if (spelled.length === 0) return [iss]'
  },
  {
    point: 'Shared Signals Silence of a stream',
    fault: 'a stream is verified once an hour',
    file: 'lib/revocation/transmitter/transmitter.ts',
    text: 'const VERIFICATION_SECONDS = 600',
    replacement: 'const VERIFICATION_SECONDS = 3600',
    seenBy: ['test/lib/revocation/transmitter/transmitter.test.ts: A stream']
  },
  {
    point: 'Shared Signals Silence of a stream',
    fault: 'events about the stream are ignored',
    file: 'lib/revocation/transmitter/transmitter.ts',
    text: 'if (isStreamStatus(news.event)) setStatus(news.event, news.at)',
    replacement: 'if (isStreamStatus(news.event)) return',
    seenBy: ['test/lib/revocation/transmitter/transmitter.test.ts: Events about']
  },
  {
    point: 'Shared Signals Silence of a stream',
    fault: 'readiness names no stream',
    file: 'routes/health.ts',
    text: 'return states.length === 0 ? {} :',
    replacement: 'return states.length > 0 ? {} :',
    seenBy: ['test/routes/health-revocation.test.ts']
  },

  {
    point: 'OpenID Connect Signature and confusion',
    fault: 'an ID token passes for a logout token',
    file: 'lib/revocation/logout-token.ts',
    text: 'if (nonce !== undefined)',
    replacement: "if (nonce === '')"
  },
  {
    point: 'OpenID Connect Replay',
    fault: 'the last entry counts, not the latest',
    file: 'lib/revocation/merged-table.ts',
    text: 'merged.first = Math.max(merged.first, first)',
    replacement: 'merged.first = first'
  },
  {
    point: 'OpenID Connect Denial of service',
    fault: 'of two logout tokens the first counts',
    file: 'lib/revocation/logout-token.ts',
    text: 'if (token === undefined || more.length > 0)',
    replacement: 'if (token === undefined)'
  },
  {
    point: 'OpenID Connect A lost logout',
    fault: 'what cannot be stored is 400',
    file: 'routes/revocation.ts',
    text: 'return reply.code(503)',
    replacement: 'return reply.code(400)'
  },

  {
    point: 'OWASP API API1',
    fault: 'a request has the claims before its proof is judged',
    file: 'lib/guard/guard.ts',
    text: 'const refusal = error ?? limited(options, token)\n    if (refusal) return done(refusal)',
    replacement:
      'const refusal = error ?? limited(options, token)\n    if (refusal) return done(refusal, { token, scheme: ' +
      "'DPoP', nextNonce: undefined })"
  },
  {
    point: 'OWASP API API2',
    fault: 'a route has no guard',
    file: 'routes/api/private-scoped.ts',
    text: "{ onRequest: app.requireScope('read:messages'), schema }",
    replacement: '{ schema }',
    seenBy: ['test/routes/endpoints.test.ts']
  },
  {
    point: 'OWASP API API2',
    fault: 'any signature of a proof verifies',
    file: PROOF,
    text: "if (!isValid) return done(new Refusal('proof_signature'))",
    replacement: '',
    seenBy: [DIFFERENTIAL]
  },
  {
    point: 'OWASP API API3',
    fault: 'the answer has all claims',
    file: 'routes/api/profile.ts',
    text: 'email: stringOrNull(user.email),\n      permissions',
    replacement: 'email: user.email as string,\n      permissions'
  },
  {
    point: 'OWASP API API4',
    fault: 'a connection may have any number of unanswered requests',
    file: 'server/queued-response.ts',
    text: 'export const MAX_UNANSWERED = 32',
    replacement: 'export const MAX_UNANSWERED = 100_000',
    seenBy: ['test/plugins/connections.test.ts']
  },
  {
    point: 'OWASP API API4',
    fault: 'one key may fill the store',
    file: 'lib/replay/memory-store.ts',
    text: 'const SHARES = 4',
    replacement: 'const SHARES = 1',
    seenBy: [PROOFS]
  },
  {
    point: 'OWASP API API4',
    fault: 'one request more passes',
    file: 'lib/guard/rate-limit.ts',
    text: 'if (counted.count >= max)',
    replacement: 'if (counted.count > max)',
    seenBy: ['test/plugins/rate-limit.test.ts']
  },
  {
    point: 'OWASP API API4',
    fault: 'the guard goes before the overload',
    file: 'plugins/pressure.ts',
    text: '[shed, ...[route.onRequest ?? []].flat()]',
    replacement: '[...[route.onRequest ?? []].flat(), shed]',
    seenBy: ['test/plugins/pressure.test.ts']
  },
  {
    point: 'OWASP API API5',
    fault: 'any claim will do',
    file: 'lib/requirement/judge.ts',
    text: '(!allowed || ',
    replacement: '(allowed || ',
    seenBy: ['test/plugins/require.test.ts']
  },
  {
    point: 'OWASP API API5',
    fault: 'a rule requires nothing',
    file: 'lib/gate/executor.ts',
    text: 'if (rule.requirement === undefined) done()',
    replacement: 'if (rule) done()',
    seenBy: [GATE]
  },
  {
    point: 'OWASP API API6',
    fault: 'a login may be of any age',
    file: 'lib/requirement/judge.ts',
    text: ' && time >= Math.floor(judgedAt) - maxAgeSeconds',
    replacement: ''
  },
  {
    point: 'OWASP API API7',
    fault: 'a token that its claims refuse causes a call',
    file: 'lib/token/jwt-verifier.ts',
    text: '  const iss = readIssuer(claims)',
    replacement: "  issuers.all()[0]!.keys.fetchCandidates('unknown', 'RS256').catch(() => {})\n" +
      '  const iss = readIssuer(claims)',
    seenBy: [TOKENS]
  },
  {
    point: 'OWASP API API7',
    fault: 'a redirect is an answer',
    file: 'lib/provider/transport.ts',
    text: "if (status >= 300 && status < 400) throw new ProviderFailure('redirect', status)",
    replacement: '',
    seenBy: ['test/lib/provider/transport.test.ts']
  },
  {
    point: 'OWASP API API8',
    fault: 'only the first bad setting is named',
    file: 'lib/settings/problems.ts',
    text: 'problems.map(problem =>',
    replacement: 'problems.slice(0, 1).map(problem =>',
    seenBy: ['test/start.test.ts']
  },
  {
    point: 'OWASP API API8',
    fault: 'a variable that is nearly a setting is left out',
    file: 'lib/settings/sources.ts',
    text: '...strange.filter(isMisspelt).map(',
    replacement: '...strange.filter(() => false).map(',
    seenBy: ['test/lib/settings/sources.test.ts']
  },
  {
    point: 'OWASP API API8',
    fault: 'the answer has the text of a fault',
    file: 'plugins/errors.ts',
    text: 'status >= 500 ? undefined : error.message',
    replacement: 'error.message',
    seenBy: ['test/plugins/errors.test.ts']
  },
  {
    point: 'OWASP API API8',
    fault: 'CORS is always on',
    file: 'plugins/cors.ts',
    text: 'const { corsOrigins: origins,',
    replacement: "const { corsOrigins: origins = ['*'],",
    seenBy: ['test/plugins/cors.test.ts']
  },
  {
    point: 'OWASP API API9',
    fault: 'no guard is described',
    file: 'lib/openapi/describe.ts',
    text: 'security: guard ? securityOf(guard, dpopMode) : []',
    replacement: 'security: []'
  },
  {
    point: 'OWASP API API10',
    fault: 'the set of a provider may have any number of keys',
    file: 'lib/provider/key-set.ts',
    text: 'const MAX_ENTRIES = 100',
    replacement: 'const MAX_ENTRIES = 1e9',
    seenBy: ['test/lib/provider/key-source.test.ts']
  },
  {
    point: 'OWASP API API10',
    fault: 'an answer without active is inactive',
    file: 'lib/introspection/introspector.ts',
    text: "if (typeof active !== 'boolean') throw new ProviderFailure('introspection_malformed')",
    replacement: '',
    seenBy: ['test/lib/introspection.test.ts']
  }
]

const PAGE = 'test/reports/reviews.md'

/** The tests that a row of test/reports/reviews.md names, by its point. */
export function testsOfPoints (): ReadonlyMap<string, readonly NamedTest[]> {
  const points = new Map<string, readonly NamedTest[]>()
  for (const section of readFileSync(PAGE, 'utf8').split('\n### ').slice(1)) {
    const short = section.split(/[ :]/, 2).join(' ')
    for (const row of section.split('\n').filter(line => line.startsWith('| '))) {
      const tests = [...row.matchAll(/\[([^\]]+)\]\((?:\.\.\/)+(test\/[\w./-]+\.test\.ts)\)/g)].map((
        [, title, file]
      ) => ({ file: file!, title: title! }))
      const [, number, words] = /^\| (?:((?:API)?\d[\d.]*) )?([^|]*) \|/.exec(row)!
      if (tests.length > 0) points.set(`${short} ${number ?? words}`, tests)
    }
  }
  return points
}

/** The tests that must see a fault. Throws an Error if the point names none such. */
export function testsOf ({ point, seenBy }: Fault, points = testsOfPoints()): readonly NamedTest[] {
  const named = points.get(point) ?? []
  const chosen = (seenBy ?? ['']).map(start => {
    const found = named.filter(({ file, title }) => `${file}: ${title}`.startsWith(start))
    if (found.length === 0) throw new Error(`${point} names no test ${start}`)
    return found
  })
  return chosen.flat()
}
