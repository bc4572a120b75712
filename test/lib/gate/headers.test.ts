import t from 'tap'
import { createUpstreamHeaders, namesForClient, isWithheldName } from '../../../lib/gate/headers.ts'
import { hasBody } from '../../../lib/guard/message.ts'
import {
  createIdentityHeaders,
  isIdentityName,
  forwardedClaims
} from '../../../lib/gate/identity-headers.ts'

const URL_OF_CLIENT = {
  scheme: 'https',
  host: 'api.example:8443',
  path: '/v1/a',
  href: 'https://api.example:8443/v1/a',
  ownPath: '/a'
} as const

/** What may stand in a name, and is no letter. */
const SIGNS = "-_.!#$%&'*+^`|~"

t.test('The upstream learns where a request came from.', async t => {
  const forwarded = (addresses: string[], url: typeof URL_OF_CLIENT | object = URL_OF_CLIENT) =>
    createUpstreamHeaders({ passCredentials: () => false, host: undefined })({ rawHeaders: [] }, {
      origin: { url: { ...URL_OF_CLIENT, ...url }, addresses },
      identity: {},
      requestId: 'r-1'
    })
  t.strictSame(forwarded(['192.0.2.1', '10.0.0.1']), [
    'x-request-id',
    'r-1',
    'x-forwarded-for',
    '192.0.2.1, 10.0.0.1',
    'x-forwarded-host',
    'api.example:8443',
    'x-forwarded-proto',
    'https',
    'x-forwarded-prefix',
    '/v1',
    'forwarded',
    'for=192.0.2.1;host="api.example:8443";proto=https'
  ])
  t.match(forwarded(['::1']).at(-1), /^for="\[::1\]";/)
  t.match(forwarded(['"; for=evil']).at(-1), /^for=unknown;/, 'what is no address')
  t.match(forwarded([]).at(-1), /^for=unknown;/, 'a unix socket')
  t.notOk(forwarded(['::1'], { path: '/a' }).includes('x-forwarded-prefix'))
})

t.test('Hop-by-hop headers are removed, and all others are passed on unchanged.', async t => {
  const headersFor = createUpstreamHeaders({ passCredentials: () => false, host: undefined })
  const own = { origin: { url: URL_OF_CLIENT, addresses: [] }, identity: {}, requestId: 'r-1' }
  const passed = (...rawHeaders: string[]) => headersFor({ rawHeaders }, own).slice(0, -12)
  const kept = ['Host', 'a', 'X-One', 'X-Two', 'X-Two', 'x-one', 'Content-Length', '1', 'TE2', 'b']
  t.strictSame(passed(...kept), kept, 'a header that is named by another one than Connection')
  t.strictSame(passed('Connection', 'close, X-One ,x-two, host, content-length', ...kept), [
    'Host',
    'a',
    'Content-Length',
    '1',
    'TE2',
    'b'
  ])
  const judged = [
    'Content-Type',
    'application/json',
    'Content-Encoding',
    'gzip',
    'Mcp-Method',
    'tools/call',
    'Mcp-Name',
    'a',
    'MCP-Protocol-Version',
    'b'
  ]
  t.strictSame(
    passed('Connection', 'content-type, content-encoding, mcp-method, mcp-name, mcp-protocol-version', ...judged),
    judged,
    'what the body was judged by'
  )
  const ofUpstream = createUpstreamHeaders({ passCredentials: () => false, host: 'up.example:3000' })({
    rawHeaders: ['Host', 'a', 'Connection', 'host']
  }, own)
  t.strictSame(ofUpstream.slice(0, -12), ['host', 'up.example:3000'])
  for (
    const name of [
      'Connection',
      'Keep-Alive',
      'Proxy-Connection',
      'Proxy-Authenticate',
      'Proxy-Authorization',
      'TE',
      'Trailer',
      'Transfer-Encoding',
      'Upgrade',
      'HTTP2-Settings',
      'Expect'
    ]
  ) {
    t.strictSame(passed(name, 'x', 'X-One', 'a'), ['X-One', 'a'], name)
  }

  t.strictSame(namesForClient({ 'set-cookie': ['a', 'b'], 'x-one': 'x-two', te: 'x', 'x-two': 'c' }), [
    'set-cookie',
    'x-one',
    'x-two'
  ])
  t.strictSame(
    namesForClient({ connection: 'x-one, content-length', 'x-one': 'a', 'content-length': '1', 'keep-alive': 'x' }),
    ['content-length']
  )
  t.strictSame(namesForClient({ connection: ['close', 'x-one'], 'x-one': 'a' }), [], 'in two lines')
  t.strictSame(namesForClient({ ['__proto__']: ['a', 'b'], constructor: 'c' }), ['constructor'])
})

t.test('A header that would steer the upstream, or name a caller, is withheld, whatever character replaces the hyphen.', async t => {
  const names = [
    'X-Original-URL',
    'X-Rewrite-URL',
    'Script-Name',
    'X-Script-Name',
    'Path-Info',
    'X-HTTP-Method',
    'X-HTTP-Method-Override',
    'X-Method-Override',
    'Proxy',
    'Client-Cert',
    'Client-Cert-Chain',
    'X-SSL-Client-Cert',
    'X-SSL-Client-S-DN',
    'ssl-client-verify',
    'SSL-Client-Subject-DN',
    'X-Amzn-Mtls-Clientcert',
    'X-Amzn-Mtls-Clientcert-Leaf',
    'X-Forwarded-Client-Cert',
    'Remote-User',
    'X-Remote-User',
    'X-Real-IP',
    'True-Client-IP',
    'X-Client-IP',
    'X-Client-Cert',
    'X-Client-Verify',
    'X-Tls-Client-Cert',
    'X-ARR-ClientCert',
    'X-MS-Client-Principal',
    'X-MS-Client-Principal-Name',
    'X-Amzn-Oidc-Identity',
    'X-Auth-Request-User',
    'X-WebAuth-User',
    'X-Original-URI',
    'X-Original-Host',
    'X-Sendfile-Type',
    'X-Accel-Mapping',
    'Forwarded',
    'X-Forwarded-For',
    'X-Forwarded-Proto',
    'X-Forwarded-Anything',
    'X-Auth-Subject',
    'X-Auth-Claim-Team'
  ]
  for (const name of names) {
    for (const sign of SIGNS) {
      const written = name.replaceAll('-', sign)
      t.equal(isWithheldName(written) && isWithheldName(written.toUpperCase()), true, written)
    }
  }
  for (
    const name of [
      'x-original-urls',
      'my-x-original-url',
      'x-http-methods',
      'proxy-x',
      'x-proxy',
      'script',
      'script-names',
      'x-path-info',
      'client-certificate',
      'x-ssl-client',
      'ssl-client',
      'x-amzn-mtls',
      'my-ssl-client-verify',
      'x-amzn-trace-id',
      'remote-users',
      'x-real-ips',
      'client-ip',
      'x-client-certs',
      'x-accel-buffering',
      'x-amzn-oidc',
      'x-auth-request',
      'x-webauth',
      'x-forwarded',
      'forwarded-for',
      'accept',
      'x-auth-token'
    ]
  ) t.equal(isWithheldName(name), false, name)
})

t.test('A header that says what the message is goes on by its own name only.', async t => {
  for (const name of ['Mcp-Name', 'Mcp-Method', 'MCP-Protocol-Version', 'Content-Length', 'Transfer-Encoding', 'Content-Type']) {
    for (const sign of SIGNS) t.equal(isWithheldName(name.replaceAll('-', sign)), sign !== '-', name + sign)
  }
})

t.test('A request has a body if its lines say so.', async t => {
  for (const headers of [{ 'transfer-encoding': 'chunked' }, { 'content-length': '1' }]) {
    t.equal(hasBody({ headers }), true)
  }
  for (const headers of [{}, { 'content-length': '0' }]) t.equal(hasBody({ headers }), false)
})

t.test('Values of claims are written as a client of the upstream can read them back.', async t => {
  const rows: ReadonlyArray<readonly [value: unknown, written: string]> = [
    [undefined, ''],
    [null, ''],
    ['', ''],
    [0, '0'],
    [false, 'false'],
    ['a-Z~!', 'a-Z~!'],
    [' ', '%20'],
    ['%', '%25'],
    ['"#$&', '"#$&'],
    ['\n\t', '%0A%09'],
    ['\u007f', '%7F'],
    ['\u00e9', '%C3%A9'],
    ['\ud83d\ude00', '%F0%9F%98%80'],
    ['\ud83d', '%EF%BF%BD'],
    [['a', 1], '["a",1]'],
    [{ a: null }, '{"a":null}']
  ]
  const told = createIdentityHeaders([{ header: 'x-auth-claim-a', claim: 'a' }, {
    header: 'x-auth-claim-inherited',
    claim: 'toString'
  }])
  const empty = {
    'x-auth-subject': '',
    'x-auth-issuer': '',
    'x-auth-scope': '',
    'x-auth-client': '',
    'x-auth-claim-a': '',
    'x-auth-claim-inherited': ''
  }
  t.strictSame(told(undefined), empty)
  const caller = (claims: object) => ({
    claims: { iss: 'i', aud: 'a', exp: 1, sub: 's', ...claims },
    scopes: ['x', 'y'],
    issuer: 'https://i.example/'
  })
  for (const [a, written] of rows) t.equal(told(caller({ a }))['x-auth-claim-a'], written, JSON.stringify(a))
  t.strictSame(told(caller({})), {
    ...empty,
    'x-auth-subject': 's',
    'x-auth-issuer': 'https://i.example/',
    'x-auth-scope': 'x%20y'
  })
  t.hasStrict(told(caller({ a: 1, azp: 'app' })), { 'x-auth-client': 'app', 'x-auth-claim-a': '1' })
  t.hasStrict(told(caller({ client_id: 'shop', azp: 'app' })), { 'x-auth-client': 'shop' }, 'RFC 9068 comes first')
  for (const [claim, value, client] of [['cid', 'okta', 'okta'], ['appid', 'entra', 'entra'], ['client_id', 7, '']]) {
    t.hasStrict(told(caller({ [claim!]: value })), { 'x-auth-client': client })
  }
  const same = caller({ azp: 'app' })
  t.equal(told(same), told({ ...same }), 'the headers of a token are written once')
  t.not(told(same), told(caller({ azp: 'app' })), 'and not for the claims of another')
})

t.test('A name that a program could take for one of ours is one of ours.', async t => {
  for (
    const name of [
      'x-auth-subject',
      'X-Auth-Subject',
      'x_auth_subject',
      'x.auth.subject',
      'x-auth-issuer',
      'x-auth-scope',
      'x-auth-client',
      'x-auth-statement',
      'x-auth-claim-',
      'X_AUTH_CLAIM_a',
      'x-auth-claim-a'
    ]
  ) t.equal(isIdentityName(name), true, name)
  for (
    const name of [
      'x-auth-subjec',
      'x-auth-subject-2',
      'my-x-auth-subject',
      'x-auth-claim',
      'my-x-auth-claim-a',
      'x-auth-token'
    ]
  ) t.equal(isIdentityName(name), false, name)

  t.strictSame(forwardedClaims([]), [])
  t.strictSame(forwardedClaims(['A.b']), [{ header: 'x-auth-claim-a-b', claim: 'A.b' }])
  t.strictSame(forwardedClaims({ Team: 'https://id.example/team' }), [{
    header: 'x-auth-claim-team',
    claim: 'https://id.example/team'
  }])
})

t.test('What the settings name does not go on, with any sign for the -, and what only begins so does.', async t => {
  const headersFor = createUpstreamHeaders({
    passCredentials: () => true,
    withheldHeaders: ['X-Tenant', 'x_internal_*', 'DPoP'],
    host: undefined
  })
  const own = { origin: { url: URL_OF_CLIENT, addresses: [] }, identity: {}, requestId: 'r-1' }
  const kept = ['X-Tenant-Id', 'a', 'X-Internal', 'b', 'Cookie', 'c', 'Authorization', 'e']
  const names = ['x-tenant', 'X_Tenant', 'x.tenant', 'X-Internal-User', 'X_INTERNAL_ROLE', 'x-internal-', 'dpop']
  const given = { rawHeaders: [...kept, ...names.flatMap(name => [name, 'd'])] }
  t.strictSame(headersFor(given, own).slice(0, kept.length), kept)
  t.notOk(headersFor(given, own).includes('d'))
})

t.test('What is remembered of the names of headers is bounded, and changes no verdict.', async t => {
  const headersFor = createUpstreamHeaders({ passCredentials: () => false, host: undefined })
  const own = { origin: { url: URL_OF_CLIENT, addresses: [] }, identity: {}, requestId: 'r-1' }
  const kept = Array.from({ length: 1200 }, (_, i) => [`X-${i}`, 'a']).flat()
  for (let round = 0; round < 2; round++) {
    const given = { rawHeaders: [...kept, 'X_Forwarded_Host', 'a', 'Authorization', 'b', 'y'.repeat(100), 'c'] }
    t.strictSame(headersFor(given, own).slice(0, -12), [...kept, 'y'.repeat(100), 'c'])
  }
})
