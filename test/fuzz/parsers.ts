import { Message, readMessage } from '../../lib/guard/message.ts'
import { parseCredentials } from '../../lib/guard/credentials.ts'
import { createCertificateReader, type CertificateSource } from '../../lib/guard/certificate/client-certificate.ts'
import { parseProofHeader } from '../../lib/guard/dpop/client-keys.ts'
import { readCheckRequest } from '../../lib/gate/ext-authz.ts'
import { GateError } from '../../lib/gate/gate-error.ts'
import { MessageError } from '../../lib/gate/grpc-message.ts'
import { readOriginal } from '../../lib/gate/original.ts'
import { decodeJsonObject, isCanonicalBase64url, splitCompactJws } from '../../lib/guard/jose/signed-jwt.ts'
import { parseKeySet } from '../../lib/guard/provider/key-set.ts'
import { parseDocument } from '../../lib/guard/provider/provider-document.ts'
import { ProviderFailure } from '../../lib/guard/provider/provider-failure.ts'
import { parseDiscoveredUri } from '../../lib/guard/provider/provider-url.ts'
import { Refusal } from '../../lib/refusal.ts'
import { settingsFromOptions } from '../../lib/settings/options.ts'
import { SettingsError } from '../../lib/base/settings-error.ts'
import { readGate } from '../../lib/settings/validation.ts'
import { parseConfigDocument } from '../../lib/settings/config-document.ts'
import { createSignedAnswerReader } from '../../lib/guard/introspection/signed-answer.ts'
import { checkByRules, type TokenRules } from '../../lib/guard/token/jwt-checks.ts'
import { verifyHtu, createRequestUrlResolver } from '../../lib/guard/url/request-url.ts'
import { ALGS, CLIENT_KEYS, KEY_SET, TOKEN_KEYS } from './keys.ts'
import { AUDIENCE, ISSUER, goodParts, make } from './parts.ts'
import { createRandom } from './random.ts'
import type { JwsAlg } from '../../lib/guard/jose/signature.ts'
import { untriedKey } from '../helpers/signing-key.ts'

/** A parser of bytes that a stranger has written. A text has one character for each byte, as in a header. */
export interface Parser {
  name: string
  /** What it should read, or nearly. */
  seeds: readonly string[]
  run: (text: string) => unknown
  /** The errors with which it may refuse. Any other is a crash. */
  refusals: ReadonlyArray<new(...args: never[]) => Error>
}

const peer = { encrypted: false, remoteAddress: '127.0.0.1' }
function received (
  headers: ReadonlyArray<readonly [name: string, value: string]>,
  url = '/api/private',
  method = 'GET'
) {
  const joined: Record<string, string> = {}
  for (const [name, value] of headers) {
    joined[name.toLowerCase()] = joined[name.toLowerCase()] === undefined
      ? value
      : `${joined[name.toLowerCase()]}, ${value}`
  }
  return { method, url, headers: joined, rawHeaders: headers.flat(), socket: peer }
}

const bytesOf = (text: string) => Buffer.from(text, 'latin1')
const resolveUrl = createRequestUrlResolver({ trustProxy: true, publicUrl: undefined })
const urlWith = (name: string) => (text: string) =>
  resolveUrl(new Message(received([['Host', 'api.example'], [name, text]])))
const certificate = (source: CertificateSource, name: string) => (text: string) =>
  createCertificateReader({ source, isTrustedPeer: () => true })(received([[name, text]]))

const ORIGINAL = { publicUrl: undefined, claimHeaders: new Set<string>() }

const good = make(goodParts(createRandom(1), 1_767_225_600, 'jti'))
const [tokenHeader = '', tokenClaims = ''] = good.token.split('.')
const proofHeader = Buffer.from(JSON.stringify({ typ: 'dpop+jwt', alg: 'ES256', jwk: CLIENT_KEYS[0]!.jwk })).toString(
  'base64url'
)
const textOf = (segment: string) => Buffer.from(segment, 'base64url').toString()
const rules: TokenRules = {
  issuer: ISSUER,
  audiences: [AUDIENCE],
  profile: 'any',
  algs: ALGS as JwsAlg[],
  audienceClaim: 'aud',
  clockToleranceSeconds: 5,
  bindings: ['jkt', 'x5t#S256']
}
const readAnswer = createSignedAnswerReader({
  issuers: [ISSUER],
  algs: ALGS as JwsAlg[],
  clientId: 'me',
  findSigner: () => untriedKey(),
  clockToleranceSeconds: 5,
  now: () => 1_767_225_600,
  keys: { candidates: () => [], fetchCandidates: async () => [] }
})
const answerJwt =
  [{ typ: 'token-introspection+jwt', alg: 'ES256' }, { iss: ISSUER, aud: 'me', token_introspection: { active: true } }]
    .map(part => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.') + '.AAAA'

const EXT_AUTHZ = bytesOf(
  '\n3"1\n\x05\x0a\x03abc"(\x12\x03GET"\x0c/api/private*\x0bapi.example2\x04http\x1a\x0c\n\x04dpop\x12\x04a.b.'
).toString('latin1')

export const PARSERS: readonly Parser[] = [
  {
    name: 'Authorization',
    seeds: ['DPoP abc.def.ghi', 'Bearer  YQ==', 'Basic x', `DPoP ${good.token}`],
    run: text => parseCredentials(readMessage(received([['Authorization', text]])), 'ALLOWED'),
    refusals: [Refusal]
  },
  {
    name: 'a compact JWS',
    seeds: ['a.b.c', good.token, 'e30.e30.AA'],
    run: text => {
      splitCompactJws(text)
      isCanonicalBase64url(text)
    },
    refusals: []
  },
  {
    name: 'JSON of a segment',
    seeds: ['{}', '[]', textOf(tokenHeader), '{"a":{"b":[1,2e3,null,true,"\\u00e9"]}}'],
    run: text => decodeJsonObject(bytesOf(text).toString('base64url')),
    refusals: []
  },
  {
    name: 'claims of a token',
    seeds: [textOf(tokenClaims), '{"iss":"https://issuer.example/","aud":["a"],"cnf":{"jkt":1}}'],
    run: text =>
      checkByRules({
        now: 1_767_225_600,
        header: JSON.parse(textOf(tokenHeader)) as Record<string, unknown>,
        claims: decodeJsonObject(bytesOf(text).toString('base64url')) ?? {}
      }, rules),
    refusals: [Refusal]
  },
  {
    name: 'header of a proof',
    seeds: [
      textOf(proofHeader),
      '{"typ":"dpop+jwt","alg":"RS256","jwk":{"kty":"RSA","n":"AQAB","e":"AQAB"}}',
      JSON.stringify({ typ: 'dpop+jwt', alg: 'PS256', jwk: TOKEN_KEYS.rsa!.jwk })
    ],
    run: text => parseProofHeader(bytesOf(text).toString('base64url'), ALGS as JwsAlg[]),
    refusals: [Refusal]
  },
  {
    name: 'htu',
    seeds: [
      'http://api.example/api/private',
      'HTTPS://[::1]:443/%7ea/../b?c#d',
      'http://xn--e1awg7f.example./',
      'http://a/b/./c/%2e%2E/d'
    ],
    run: text =>
      verifyHtu(bytesOf(text).toString('utf8'), {
        scheme: 'http',
        host: 'api.example',
        path: '/',
        href: 'http://api.example/',
        ownPath: '/'
      }),
    refusals: [Refusal]
  },
  {
    name: 'target',
    seeds: ['/api/private?x', '/a/../b', '/%2e/%zz', 'http://api.example/x', '*', '/a\\b'],
    run: text => resolveUrl(new Message(received([['Host', 'api.example']], text))),
    refusals: [Refusal]
  },
  {
    name: 'Host',
    seeds: ['api.example:8443', '[::1]:80', 'xn--e1awg7f', '%61', 'b\xc3\xbcro.example'],
    run: text => resolveUrl(new Message(received([['Host', text]]))),
    refusals: [Refusal]
  },
  {
    name: 'X-Forwarded-Host',
    seeds: ['a.example, b.example:443', '[::1]'],
    run: urlWith('X-Forwarded-Host'),
    refusals: [Refusal]
  },
  {
    name: 'X-Forwarded-Proto',
    seeds: ['https', 'http, https'],
    run: urlWith('X-Forwarded-Proto'),
    refusals: [Refusal]
  },
  { name: 'X-Forwarded-Port', seeds: ['443', '80, 8443'], run: urlWith('X-Forwarded-Port'), refusals: [Refusal] },
  {
    name: 'X-Forwarded-Prefix',
    seeds: ['/a/b', '/a, /b', '/%7Ea'],
    run: urlWith('X-Forwarded-Prefix'),
    refusals: [Refusal]
  },
  {
    name: 'Forwarded',
    seeds: [
      'for=1.2.3.4;proto=https;host="a.example:443", for=x;host=b',
      'host="[::1]:8\\0"',
      'proto = http',
      ' ,;=,"'
    ],
    run: urlWith('Forwarded'),
    refusals: [Refusal]
  },
  {
    name: 'Client-Cert',
    seeds: [':AAAA:', ':TUlJQg==:', '::'],
    run: certificate('client-cert', 'Client-Cert'),
    refusals: [Refusal]
  },
  {
    name: 'X-SSL-Client-Cert',
    seeds: ['-----BEGIN%20CERTIFICATE-----%0AAAAA%0A-----END%20CERTIFICATE-----%0A', '%zz'],
    run: certificate('nginx', 'X-SSL-Client-Cert'),
    refusals: [Refusal]
  },
  {
    name: 'X-Forwarded-Client-Cert',
    seeds: [
      `By=spiffe://a;Hash=${'ab'.repeat(32)};Subject="/C=US, \\"x\\""`,
      `Hash=x,Hash=${'cd'.repeat(32)};Cert="-----BEGIN%20CERTIFICATE-----%0AAA%0A-----END%20CERTIFICATE-----"`,
      'a=b;;=,'
    ],
    run: certificate('xfcc', 'X-Forwarded-Client-Cert'),
    refusals: [Refusal]
  },
  {
    name: 'X-Original-URL',
    seeds: ['https://api.example/a?b', 'http://[::1]:80', 'http://[::1]:80/', 'http://a?/b'],
    run: text =>
      readOriginal(
        'nginx',
        new Message(received([['X-Original-Method', 'GET'], ['X-Original-URL', text]])),
        '',
        ORIGINAL
      ),
    refusals: [Refusal, GateError]
  },
  {
    name: 'X-Forwarded-Uri',
    seeds: ['/a?b', '/a%2fb'],
    run: text =>
      readOriginal(
        'forwarded',
        new Message(
          received([
            ['X-Forwarded-Method', 'GET'],
            ['X-Forwarded-Proto', 'https'],
            ['X-Forwarded-Host', 'api.example'],
            ['X-Forwarded-Uri', text]
          ])
        ),
        '',
        ORIGINAL
      ),
    refusals: [Refusal, GateError]
  },
  {
    name: 'a CheckRequest of Envoy',
    seeds: [EXT_AUTHZ, '\n\x00', '\x0a\x02\x08\x01'],
    run: text => readCheckRequest(bytesOf(text)),
    refusals: [MessageError]
  },
  {
    name: 'the settings file',
    seeds: [
      'idp:\n  domain: tenant.example\n  audience: x\n',
      '{"idp": {"issuers": [{"issuer": "https://a/", "audience": 1}]}}',
      'a: &x 1\nb: *x\n? [c]\n: |\n  d\n',
      'gate:\n  rules:\n    - { path: /a, allow: anyone }\n'
    ],
    run: text => parseConfigDocument(bytesOf(text).toString('utf8'), line => `line ${line}`),
    refusals: []
  },
  {
    name: 'the rules of the gate',
    seeds: [
      '{"upstream":"http://127.0.0.1:1","rules":[{"path":"/a/:b","methods":["GET"],"scope":"x"},{"path":"/*","allow":"anyone"}]}',
      '{"rules":[{"path":"/a(^\\\\d+)","claims":{"a":[1]}}],"claims":{"A":"b"}}'
    ],
    run: text => readGate(settingsFromOptions({ gate: decodeJsonObject(bytesOf(text).toString('base64url')) })),
    refusals: [SettingsError]
  },
  {
    name: 'a key set',
    seeds: [
      JSON.stringify({ keys: [KEY_SET.keys[0], { kty: 'oct' }] }),
      JSON.stringify({ keys: [KEY_SET.keys[4]] }),
      '{"keys":[null]}'
    ],
    run: text => parseKeySet(bytesOf(text), ALGS as JwsAlg[]),
    refusals: [ProviderFailure]
  },
  {
    name: 'a discovery document',
    seeds: [`{"issuer":"${ISSUER}","jwks_uri":"${ISSUER}keys"}`, '[]'],
    run: text => {
      const { jwks_uri: uri } = parseDocument(bytesOf(text), 'discovery_malformed')
      parseDiscoveredUri(String(uri), ISSUER, 'jwks_uri_refused')
    },
    refusals: [ProviderFailure]
  },
  {
    name: 'a signed answer of introspection',
    seeds: [answerJwt, good.token],
    run: text => readAnswer(text),
    refusals: [ProviderFailure]
  }
]
