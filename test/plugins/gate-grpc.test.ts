import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import Fastify from 'fastify'
import t, { type Test } from 'tap'
import { holdfast, readSettings } from '../../holdfast.ts'
import { startApp } from '../helpers/app.ts'
import { atAnotherTime, untilNonceStays } from '../helpers/clock.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { checkRequest } from '../helpers/check-request.ts'
import { callGrpc, frame, openGrpc, type GrpcAnswer } from '../helpers/grpc-client.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { CHECK_PATH, readCheckRequest, writeDenied, writePassed } from '../../lib/gate/ext-authz.ts'
import { field, readFields as readWithin, type Fields } from '../../lib/gate/grpc-message.ts'
import { MAX_MESSAGE_BYTES } from '../../lib/gate/message-body.ts'
import { listen } from '../helpers/listen.ts'

const RULES = [{ path: '/open/*', allow: 'anyone' }, { path: '/any/*' }]

async function startGate (t: Test, gate: object = {}, values: object = {}) {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer, {
    GATE: { rules: RULES, grpcPort: 0, ...gate },
    TRUST_PROXY: 'loopback',
    ...values
  })
  // The port opens after the one of the service.
  while (!running.app.grpcAddress()) await new Promise(setImmediate)
  const client = await openGrpc(t, running.app.grpcAddress()!.port)
  return { ...running, issuer, client, call: (body: Buffer, path = CHECK_PATH) => callGrpc(client, path, body) }
}

const readFields = (message: Buffer, left = 1000) => readWithin(message, { left })

const sub = (fields: Fields, number: number) => readFields(fields.get(number)?.at(-1) ?? Buffer.alloc(0))

const headersOf = (fields: Fields, number: number) =>
  Object.fromEntries((fields.get(number) ?? []).map(option => {
    const header = sub(readFields(option), 1)
    return [header.get(1)![0]!.toString(), header.get(2)![0]!.toString()]
  }))

/** The status in a denied response: a message in field 1, whose first field is a number. */
const statusIn = (denied: Buffer) => denied[3]! & 127 | denied[4]! << 7

function read ({ message }: GrpcAnswer) {
  const response = readFields(message)
  const ok = response.get(3)
  const part = ok ? sub(response, 3) : sub(response, 2)
  return {
    passed: ok !== undefined,
    headers: headersOf(part, 2),
    body: part.get(3)?.[0]?.toString(),
    removed: (part.get(5) ?? []).map(String),
    answer: headersOf(part, 6)
  }
}

t.test('Fields are written and read as Protocol Buffers say.', async t => {
  // The examples of the encoding guide.
  t.strictSame(field(1, 150), Buffer.from('089601', 'hex'))
  t.strictSame(field(2, 'testing'), Buffer.from('120774657374696e67', 'hex'))
  t.strictSame(readFields(Buffer.from('089601120774657374696e67', 'hex')), new Map([[2, [Buffer.from('testing')]]]))
  t.strictSame(
    readFields(Buffer.from('0d01020304' + '110102030405060708', 'hex')),
    new Map(),
    'fields of a fixed length'
  )
  t.strictSame(
    readFields(Buffer.from('120161' + '1a0162' + '12' + '00', 'hex')),
    new Map([[2, [Buffer.from('a'), Buffer.from('')]], [3, [Buffer.from('b')]]]),
    'a field that is repeated, and one that is empty'
  )
  t.strictSame(
    field(3, Buffer.alloc(300)),
    Buffer.concat([Buffer.from('1aac02', 'hex'), Buffer.alloc(300)]),
    'a length of two bytes'
  )
  t.strictSame(readFields(field(2000, 'a')).get(2000), [Buffer.from('a')], 'a number of two bytes')
  t.strictSame([field(1, 127), field(1, 128), field(1, 0)].map(bytes => bytes.toString('hex')), [
    '087f',
    '088001',
    '0800'
  ])
  t.strictSame(
    readFields(Buffer.from('08ffffffffffffffffff01' + '120161', 'hex')),
    new Map([[2, [Buffer.from('a')]]]),
    'a number of ten bytes is passed over'
  )
  t.strictSame(
    readFields(Buffer.from('9280808080800' + '10161', 'hex')),
    new Map([[2 ** 39 + 2, [Buffer.from('a')]]]),
    'a large number of a field is not taken for a small one'
  )
  const faults: ReadonlyArray<readonly [bytes: string, message: string]> = [
    ['12', 'The message is cut off'],
    ['12' + '818080808001' + '61', 'The message is cut off'],
    ['120774', 'The message is cut off'],
    ['08', 'The message is cut off'],
    ['0d010203', 'The message is cut off'],
    ['1101020304050607', 'The message is cut off'],
    ['0b', 'The message has a field of an unknown kind'],
    ['0e', 'The message has a field of an unknown kind'],
    ['08ffffffffffffffffffff01', 'The message has a number without end'],
    ['08' + '80'.repeat(10) + '00', 'The message has a number without end']
  ]
  for (const [bytes, message] of faults) {
    t.throws(() => readFields(Buffer.from(bytes, 'hex')), { name: 'MessageError', message }, bytes)
  }
})

t.test('Check requests are read and answers are written as the proto files of Envoy say.', async t => {
  t.strictSame(readCheckRequest(Buffer.alloc(0)), {
    method: '',
    path: '',
    host: '',
    scheme: '',
    headers: new Map(),
    body: Buffer.alloc(0),
    bodyText: Buffer.alloc(0)
  }, 'nothing that is missing has a value')
  const entry = (...parts: Buffer[]) => Buffer.concat(parts)
  const http = Buffer.concat([
    field(2, 'PUT'),
    field(2, 'GET'),
    field(4, '/a'),
    field(5, 'api.example'),
    field(6, 'https'),
    field(3, entry(field(1, 'X-One'), field(2, 'a'))),
    field(3, entry(field(1, 'x-one'), field(2, 'b'))),
    field(3, entry(field(1, 'x-empty'))),
    field(11, 'text'),
    field(12, Buffer.from('ff', 'hex')),
    field(13, field(1, entry(field(1, 'x-raw'), field(3, 'c'))))
  ])
  t.strictSame(readCheckRequest(field(1, field(4, field(2, http)))), {
    method: 'GET',
    path: '/a',
    host: 'api.example',
    scheme: 'https',
    headers: new Map([['x-one', ['a', 'b']], ['x-empty', ['']], ['x-raw', ['c']]]),
    body: Buffer.from('ff', 'hex'),
    bodyText: Buffer.from('text')
  }, 'the last of two, names in lower case, all values of a name')

  // The header, then append_action: OVERWRITE_IF_EXISTS_OR_ADD, and keep_empty_value.
  const option = (name: string, value: string) =>
    Buffer.concat([field(1, Buffer.concat([field(1, name), field(2, value)])), field(3, 2), field(4, 1)])
  t.strictSame(
    writePassed({ set: [['x-a', '']], remove: ['dpop'], answer: [['dpop-nonce', 'n']] }),
    Buffer.concat([
      field(1, field(1, 0)),
      field(3, Buffer.concat([field(2, option('x-a', '')), field(5, 'dpop'), field(6, option('dpop-nonce', 'n'))]))
    ])
  )
  t.strictSame(
    writeDenied({ status: 401, headers: [['www-authenticate', 'DPoP']], body: '{}' }),
    Buffer.concat([
      field(1, field(1, 7)),
      field(2, Buffer.concat([field(1, field(1, 401)), field(2, option('www-authenticate', 'DPoP')), field(3, '{}')]))
    ])
  )
})

t.test('Envoy sends check requests over gRPC, and gets the answers of the guard.', async t => {
  const { call, issuer, app, log } = await startGate(t)
  const client = await createDpopClient()
  const token = issuer.token({ cnf: client.cnf })
  const proof = () => ({
    authorization: `DPoP ${token}`,
    dpop: client.proof({ token, url: 'https://api.example/any/x' })
  })
  const headers = proof()

  const passed = read(
    await call(
      checkRequest({ path: '/any/x?q', headers: { ...headers, x_auth_subject: 'root', 'x-auth-subject': 'root' } })
    )
  )
  t.hasStrict(passed, {
    passed: true,
    headers: { 'x-auth-subject': 'user-1', 'x-auth-client': '' },
    removed: ['authorization', 'dpop', 'x_auth_subject'],
    answer: {}
  })
  t.strictSame(passed.removed, ['authorization', 'dpop', 'x_auth_subject'])
  t.strictSame(passed.answer, {})
  t.strictSame(Object.keys(passed.headers).sort(), [
    'x-auth-client',
    'x-auth-issuer',
    'x-auth-scope',
    'x-auth-subject',
    'x-request-id'
  ])
  t.equal(passed.headers['x-request-id'], log.at(-1)!.reqId)
  t.equal(app.grpcSessions(), 1, 'a session that the end of the service closes')
  const replayed = read(await call(checkRequest({ headers })))
  t.match(replayed, {
    passed: false,
    headers: { 'www-authenticate': /invalid_dpop_proof/, 'content-type': /json/ },
    body: /used before/
  })
  t.strictSame(Object.keys(replayed.headers).sort(), ['cache-control', 'content-type', 'www-authenticate'])
  t.equal(replayed.headers['cache-control'], 'no-store')
  t.equal(
    read(await call(checkRequest({ path: '/any/y', headers: proof() }))).passed,
    false,
    'the proof of another path'
  )
  const { dpop, authorization } = proof()
  t.equal(
    read(
      await call(
        checkRequest({
          raw: [['authorization', authorization!], ['dpop', dpop!.slice(0, 99)], ['dpop', dpop!.slice(99)]]
        })
      )
    ).passed,
    false,
    'a proof in two lines'
  )
  const { status, headers: head, message, length } = await call(checkRequest({ path: '/open/x' }))
  t.hasStrict({ status, head, length }, {
    status: '0',
    head: { ':status': 200, 'content-type': 'application/grpc' },
    length: message.length
  })
  t.equal(read(await call(checkRequest({ raw: Object.entries(proof()) }))).passed, true, 'raw headers')
  t.equal(
    read(await call(checkRequest({ raw: [...Object.entries(proof()), ['DPoP', 'another']] }))).passed,
    false,
    'two proofs'
  )
  t.equal(read(await call(checkRequest({ path: '/open/x' }))).passed, true, 'anyone')
  for (
    const [title, parts] of Object.entries({
      rule: { path: '/elsewhere' },
      path: { path: '/open/../any' },
      host: { host: '' },
      scheme: { scheme: '' },
      method: { method: 'x' },
      'no path': { path: null },
      'no host': { path: '/open/x', host: null },
      'no scheme': { path: '/open/x', scheme: null },
      'no method': { path: '/open/x', method: null }
    })
  ) {
    t.equal(
      read(await call(checkRequest({ ...parts, headers: { authorization: `Bearer ${issuer.token()}` } }))).passed,
      false,
      title
    )
  }
})

t.test(
  'The parts that Envoy sends are read by their own grammar, and Envoy must remove headers that would steer the ' +
    'upstream.',
  async t => {
    const { call } = await startGate(t, { withheldHeaders: ['X_Tenant'] })
    const isPassed = async (parts: Parameters<typeof checkRequest>[0]) =>
      read(await call(checkRequest(parts))).passed
    t.equal(await isPassed({ path: '/open/x' }), true)
    t.equal(await isPassed({ path: '/any/x' }), false, 'the twin of those below')
    for (const scheme of ['https://api.example/open/x?', 'http://a.test/open/x#', 'https, http', 'ftp']) {
      t.equal(await isPassed({ path: '/any/x', scheme }), false, scheme)
    }
    for (const host of ['api.example/open/x?', 'api.example?', 'api.example#', 'a@api.example', 'a,b']) {
      t.equal(await isPassed({ path: '/any/x', host }), false, host)
    }
    for (const path of ['?/open/x', 'open/x', 'https://api.example/open/x']) {
      t.equal(await isPassed({ path }), false, path)
    }
    const headers = {
      'x-original-url': '/',
      x_rewrite_url: '/',
      'x.http.method.override': 'PUT',
      'client-cert': 'x',
      'x-ssl-client-verify': 'x',
      'x-forwarded-host': 'evil',
      'x-forwarded-for': '127.0.0.1',
      'x-forwarded-proto': 'https',
      x_forwarded_for: 'x',
      'x-tenant': 'x',
      accept: '*/*'
    }
    t.strictSame(read(await call(checkRequest({ path: '/open/x', headers }))).removed, [
      'authorization',
      'dpop',
      'x-original-url',
      'x_rewrite_url',
      'x.http.method.override',
      'client-cert',
      'x-ssl-client-verify',
      'x-forwarded-host',
      'x_forwarded_for',
      'x-tenant'
    ])
  }
)

t.test('A header that is withheld is removed, also if the answer of the guard has one of its name.', async t => {
  const { call } = await startGate(t, { withheldHeaders: ['Date', 'Vary'] })
  const headers = { date: 'x', vary: 'x', connection: 'x', 'x-request-id': 'x', 'x-auth-subject': 'x' }
  t.strictSame(read(await call(checkRequest({ path: '/open/x', headers }))).removed, [
    'authorization',
    'dpop',
    'date',
    'vary'
  ])
})

t.test('A certificate that Envoy has seen binds a token as it does over HTTP.', async t => {
  const [a, b] = ['a', 'b'].map(name =>
    new X509Certificate(readFileSync(join(import.meta.dirname, '..', 'fixtures', `client-${name}.cert.pem`)))
  ) as [X509Certificate, X509Certificate]
  const { call, issuer } = await startGate(t, {}, { CLIENT_CERTIFICATE: 'xfcc' })
  const hexOf = ({ fingerprint256 }: X509Certificate) => fingerprint256.replaceAll(':', '')
  const token = issuer.token({ cnf: { 'x5t#S256': Buffer.from(hexOf(a), 'hex').toString('base64url') } })
  const name = 'x-forwarded-client-cert'
  const ask = async (...values: string[]) =>
    read(
      await call(
        checkRequest({ raw: [['authorization', `Bearer ${token}`], ...values.map(value => [name, value] as const)] })
      )
    )
  const own = `Hash=${hexOf(a)}`
  const passed = await ask(own)
  t.equal(passed.passed, true)
  t.strictSame(passed.removed, ['authorization', 'dpop', name], 'the upstream does not get it')
  for (const [values, body] of [
    [[], /has shown none/],
    [[`Hash=${hexOf(b)}`], /another/],
    [[own, own], /cannot be read/]
  ] as const) t.match(await ask(...values), { passed: false, headers: { 'www-authenticate': /invalid_token/ }, body })
})

t.test('A new nonce reaches the client, and credentials the upstream if they are to be passed on.', async t => {
  const { call, issuer } = await startGate(t, { passCredentials: true }, { DPOP_NONCE: 'required' })
  const client = await createDpopClient()
  const token = issuer.token({ cnf: client.cnf })
  const put = async (nonce?: string) =>
    read(
      await call(
        checkRequest({
          headers: {
            authorization: `DPoP ${token}`,
            dpop: client.proof({ token, url: 'https://api.example/any/x', claims: { nonce } })
          }
        })
      )
    )
  await untilNonceStays()
  const first = await put()
  t.match(first, { passed: false, headers: { 'www-authenticate': /use_dpop_nonce/ } })
  const accepted = await put(first.headers['dpop-nonce'])
  t.strictSame([accepted.passed, accepted.removed, accepted.answer], [true, [], {}])
  const older = await atAnotherTime(-120, () => put())
  const renewed = await put(older.headers['dpop-nonce'])
  t.strictSame(
    [renewed.passed, Object.keys(renewed.answer)],
    [true, ['dpop-nonce']],
    'the newest nonce goes to the client'
  )
})

t.test('A peer that is not trusted is disconnected before anything is read or sent.', async t => {
  const issuer = await startIssuer(t)
  for (const [trustProxy, isTrusted] of [['loopback', true], ['10.0.0.0/8', false], [false, false]] as const) {
    const { app, log } = await startApp(t, issuer, { GATE: { rules: RULES, grpcPort: 0 }, TRUST_PROXY: trustProxy })
    while (!app.grpcAddress()) await new Promise(setImmediate)
    const socket = connect(app.grpcAddress()!.port, '127.0.0.1')
    t.teardown(() => {
      socket.destroy()
    })
    const event = await Promise.race([
      once(socket, 'data').then(() => 'data'),
      once(socket, 'close').then(() => 'close')
    ])
    t.equal(event, isTrusted ? 'data' : 'close', `${trustProxy}`)
    t.equal(app.grpcSessions(), isTrusted ? 1 : 0)
    const lines = log.filter(({ reason }) => reason === 'peer_untrusted').map(({ level, remoteAddress, msg }) => ({
      level,
      remoteAddress,
      msg
    }))
    t.strictSame(lines, isTrusted ? [] : [{ level: 30, remoteAddress: '127.0.0.1', msg: 'grpc connection refused' }])
  }
})

t.test('Scheme, host and path of a check request are each validated: none of them moves the border to the next.', async t => {
  const { call } = await startGate(t)
  const verdict = async (parts: object) =>
    read(await call(checkRequest({ path: '/any/x', ...parts }))).passed
  t.equal(await verdict({ path: '/open/x' }), true)
  t.equal(await verdict({}), false, 'a path that requires a token')
  for (
    const scheme of [
      'https://api.example/open/x?',
      'https://api.example/open/x#',
      'https:',
      'ftp',
      'javascript',
      'https, http',
      'https '
    ]
  ) {
    t.equal(await verdict({ scheme }), false, scheme)
    t.equal(await verdict({ scheme, path: '/open/x' }), false, scheme)
  }
  for (
    const host of [
      'api.example/open/x?',
      'api.example?',
      'api.example#',
      'api.example\\open',
      'user@api.example',
      'a.example,b.example',
      'api.example/',
      'api.example:0',
      ' api.example',
      '[::1',
      '/open/x'
    ]
  ) {
    t.equal(await verdict({ host }), false, host)
    t.equal(await verdict({ host, path: '/open/x' }), false, host)
  }
  for (
    const path of [
      'open/x',
      '?/open/x',
      '#/open/x',
      '//open/x',
      '@api.example/open/x',
      'https://api.example/open/x',
      ''
    ]
  ) t.equal(await verdict({ path }), false, path)
})

t.test('Only a check request gets a verdict.', async t => {
  const { call } = await startGate(t)
  t.hasStrict(await call(checkRequest({}), '/other.Service/Check'), {
    status: '12',
    length: undefined,
    headers: { ':status': 200, 'content-type': 'application/grpc' }
  })
  t.equal((await call(Buffer.from([0, 0, 0, 0, 9]))).status, '3', 'cut off')
  t.equal((await call(frame(Buffer.from([0x0a, 9])))).status, '3', 'no message')
  const empty = await call(frame(Buffer.alloc(0)))
  t.strictSame([empty.status, read(empty).passed], ['0', false], 'a message without fields is an empty check request')
})

t.test('A check request has a maximum number of fields, in all its messages together.', async t => {
  const { call } = await startGate(t)
  const entry = (fields: number) => field(3, Buffer.concat(Array.from({ length: fields }, () => field(1, 'x'))))
  const http = Buffer.concat([field(2, 'GET'), field(4, '/open/x'), field(5, 'api.example'), field(6, 'https')])
  const requestWith = (...entries: Buffer[]) =>
    frame(field(1, field(4, field(2, Buffer.concat([http, ...entries])))))
  // Beside the entries, there are three fields of messages and four of the request.
  t.equal(read(await call(requestWith(...Array.from({ length: 1993 }, () => entry(0))))).passed, true)
  t.equal((await call(requestWith(...Array.from({ length: 1994 }, () => entry(0))))).status, '3')
  t.equal(read(await call(requestWith(entry(1992)))).passed, true)
  t.equal((await call(requestWith(entry(1993)))).status, '3')
  // What follows is cut off, and is not read any more.
  t.throws(
    () =>
      readCheckRequest(field(
        1,
        Buffer.concat([...Array.from({ length: 1999 }, () => field(9, '')), Buffer.from([0x12, 9])])
      )),
    { name: 'MessageError', message: 'The message has too many fields' }
  )
  t.throws(
    () =>
      readCheckRequest(field(
        1,
        Buffer.concat([...Array.from({ length: 1998 }, () => field(9, '')), Buffer.from([0x12, 9])])
      )),
    { name: 'MessageError', message: 'The message is cut off' }
  )
})

t.test('A message may be as large as the limit, and no larger.', async t => {
  const { call } = await startGate(t)
  const most = 1280 * 1024 + 5
  const padded = (bytes: number) => checkRequest({ path: '/open/x', headers: { 'x-pad': 'a'.repeat(bytes) } })
  const sized = (bytes: number) => padded(bytes - padded(most / 2).length + most / 2)
  t.equal(sized(most).length, most)
  t.equal(read(await call(sized(most))).passed, true)
  await t.rejects(call(sized(most + 1)), { code: 'ERR_HTTP2_STREAM_ERROR', message: /ENHANCE_YOUR_CALM/ })
})

t.test('A body is judged as it came, and only as a whole.', async t => {
  const rules = [
    { path: '/mcp', mcp: { methods: ['tools/list'] } },
    { path: '/mcp', mcp: { tools: ['read_*'] }, scope: 'read' },
    { path: '/mcp', mcp: { tools: ['pay'] }, maxAgeSeconds: 60 },
    { path: '/mcp', mcp: { tools: ['pick'], arguments: { region: 'eu' } }, scope: 'read' }
  ]
  const { call, issuer, log } = await startGate(t, { rules })
  const read = (tool: string, asked?: object) =>
    JSON.stringify({ method: 'tools/call', params: { name: tool, arguments: asked } })
  const inRevision = (revision: string) =>
    JSON.stringify({
      method: 'tools/call',
      params: { name: 'read_a', _meta: { 'io.modelcontextprotocol/protocolVersion': revision } }
    })
  const pad = (bytes: number) => `{"method":"tools/list","params":{"x":"${'x'.repeat(bytes - 41)}"}}`
  const user = { authorization: `Bearer ${issuer.token({ scope: 'read' })}`, 'content-type': 'application/json' }
  const whole = { ...user, 'x-envoy-auth-partial-body': 'false' }
  const invalid = Buffer.from(read('read_\u00ff'), 'latin1')
  const rows: Array<[title: string, status: string | undefined, parts: Parameters<typeof checkRequest>[0]]> = [
    ['a tool that may be called', undefined, { body: read('read_a') }],
    ['as raw headers', undefined, { headers: {}, raw: Object.entries(whole), body: read('read_a') }],
    ['as large as it may be', undefined, { body: pad(MAX_MESSAGE_BYTES) }],
    ['too large', '403', { body: pad(MAX_MESSAGE_BYTES + 1) }],
    ['a tool without a rule', '403', { body: read('drop') }],
    ['a tool that needs a new login', '401', { body: read('pay') }],
    ['an argument that its rule allows', undefined, { body: read('pick', { region: 'eu' }) }],
    ['an argument that it does not', '403', { body: read('pick', { region: 'us' }) }],
    ['no JSON', '403', { body: '{' }],
    ['no UTF-8', '403', { body: invalid }],
    ['as text', undefined, { text: read('read_a') }],
    ['as text, where ! may stand for what is not UTF-8', '403', { text: read('read_!') }],
    ['the same in bytes', undefined, { body: read('read_!') }],
    ['too large a text', '403', { text: pad(MAX_MESSAGE_BYTES + 1) }],
    ['as text beside the bytes', '403', { text: read('read_a'), body: read('read_a') }],
    ['nothing', '403', {}],
    ['a part', '403', { headers: { ...whole, 'x-envoy-auth-partial-body': 'true' }, body: read('read_a') }],
    ['perhaps a part', '403', { headers: user, body: read('read_a') }],
    ['a part, and the client says that it is whole', '403', {
      headers: {},
      raw: [...Object.entries(whole), ['x-envoy-auth-partial-body', 'true']],
      body: read('read_a')
    }],
    ['a content coding', '403', { headers: { ...whole, 'content-encoding': 'gzip' }, body: read('read_a') }],
    ['no content type', '403', { headers: { ...whole, 'content-type': '' }, body: read('read_a') }],
    ['headers that say the same', undefined, {
      headers: { ...whole, 'mcp-method': 'tools/call', 'mcp-name': 'read_a' },
      body: read('read_a')
    }],
    ['a header that says another method', '403', {
      headers: { ...whole, 'mcp-method': 'tools/list' },
      body: read('read_a')
    }],
    ['a header that says another name', '403', { headers: { ...whole, 'mcp-name': 'read_b' }, body: read('read_a') }],
    ['a header with another sign that says another name', '403', {
      headers: { ...whole, mcp_name: 'read_b' },
      body: read('read_a')
    }],
    ['two spellings of a header', '403', {
      headers: { ...whole, 'mcp-name': 'read_a', mcp_name: 'read_a' },
      body: read('read_a')
    }],
    ['another spelling alone', undefined, { headers: { ...whole, mcp_name: 'read_a' }, body: read('read_a') }],
    ['a content coding by another spelling', '403', {
      headers: { ...whole, content_encoding: 'br' },
      body: read('read_a')
    }],
    ['a second content type by another spelling', '403', {
      headers: { ...whole, content_type: 'text/plain' },
      body: read('read_a')
    }],
    ['a header that says another revision', '403', {
      headers: { ...whole, 'mcp-protocol-version': '2025-11-25' },
      body: inRevision('2026-07-28')
    }],
    ['a header that says the same revision', undefined, {
      headers: { ...whole, 'mcp-protocol-version': '2026-07-28' },
      body: inRevision('2026-07-28')
    }],
    ['no token', '401', { headers: { 'content-type': 'application/json' }, body: '{' }],
    ['another rule, whose body is not judged', '403', {
      headers: { ...whole, 'x-holdfast-check': '1' },
      path: '/elsewhere',
      body: read('read_a')
    }]
  ]
  for (const [title, expected, parts] of rows) {
    const { message } = await call(checkRequest({ method: 'POST', path: '/mcp', headers: whole, ...parts }))
    const denied = readFields(message).get(2)
    t.equal(denied && String(statusIn(denied[0]!)), expected, title)
  }
  t.equal(log.filter(({ reason }) => reason === 'argument_refused').length, 1)
  t.strictSame([...new Set(log.filter(({ reason }) => reason === 'question_refused').map(({ fault }) => fault))], [
    'The body of the request is too large.',
    'The body is not JSON.',
    'The body is not UTF-8.',
    'The authorization request has the body as text, where Envoy writes ! for what is not UTF-8, and there is ' +
    'one. It needs pack_as_bytes.',
    'The authorization request has the body in two forms.',
    'The authorization request has only a part of the original body.',
    'The authorization request lacks the header x-envoy-auth-partial-body.',
    'The body has a content coding.',
    'The content type is not application/json.',
    'The Mcp-Method header does not say what the body says.',
    'The Mcp-Name header does not say what the body says.',
    'The MCP-Protocol-Version header does not say what the body says.'
  ])
  t.equal(log.filter(({ mcp }) => mcp === 'tools/call read_*').length, 7)
})

t.test('The log names the port for Envoy, and Envoy learns the maximum number of concurrent calls.', async t => {
  const { app, client, log } = await startGate(t)
  t.equal(client.remoteSettings.maxConcurrentStreams, 100)
  t.hasStrict(log.filter(({ event }) => event === 'grpc_listening'), [{
    level: 30,
    port: app.grpcAddress()!.port,
    msg: 'grpc listening'
  }])
})

t.test('The end of the service ends the connections of Envoy, and its port.', async t => {
  const { app, client, call } = await startGate(t)
  t.equal(read(await call(checkRequest({ path: '/open/x' }))).passed, true)
  const { port } = app.grpcAddress()!
  const silent = connect(port, '127.0.0.1')
  t.teardown(() => {
    silent.destroy()
  })
  await once(silent, 'data')
  t.equal(app.grpcSessions(), 2)
  silent.on('error', () => {})
  // Whether it ends in order or by a reset.
  const ended = [client, silent].map(each =>
    new Promise<void>(resolve => {
      each.once('close', () => resolve())
    })
  )
  app.server.close()
  await app.close()
  t.equal(app.grpcSessions(), 0)
  t.equal(app.grpcAddress(), undefined)
  await Promise.all(ended)
})

t.test('A client with too many requests gets Retry-After.', async t => {
  const { call, issuer } = await startGate(t, {}, { RATE_LIMIT: '1' })
  const put = async () =>
    read(await call(checkRequest({ headers: { authorization: `Bearer ${issuer.token()}` } })))
  t.equal((await put()).passed, true)
  t.match(await put(), { passed: false, headers: { 'retry-after': /^\d+$/ } })
})

t.test('Without a port there is no gRPC listener, and an app that never listened can be closed.', async t => {
  const { app } = await startApp(t, await startIssuer(t), { GATE: { rules: RULES } })
  await new Promise(setImmediate)
  t.strictSame([app.grpcAddress(), app.grpcSessions()], [undefined, 0])
  const settings = await readSettings({
    IDP_ISSUER: 'https://tenant.example/',
    IDP_AUDIENCE: 'x',
    GATE: { rules: [], grpcPort: 0 }
  })
  const silent = Fastify()
  await silent.register(holdfast, { settings })
  await silent.ready()
  t.equal(silent.grpcAddress(), undefined)
  await silent.close()
})

t.test('A port in use stops the start.', async t => {
  const taken = createServer()
  const port = await listen(t, taken)
  const failed = new Promise<Error>(resolve => {
    startIssuer(t).then(issuer =>
      startApp(t, issuer, { GATE: { rules: RULES, grpcPort: port } }, app => {
        app.server.on('error', resolve)
      })
    )
  })
  t.hasStrict(await failed, { code: 'EADDRINUSE', port, setting: 'gate.grpcPort' })
})

t.test('A fault of our own is an error of gRPC, and nothing passes.', async t => {
  const { call, app, log } = await startGate(t)
  Object.assign(app, {
    inject: async () => {
      throw new Error('broken')
    }
  })
  t.equal((await call(checkRequest({ path: '/open/x' }))).status, '13')
  t.hasStrict(log.filter(({ level }) => level >= 50), [{
    err: { message: 'broken' },
    msg: 'authorization request failed'
  }])
})

t.test('An answer to a closed session is dropped.', async t => {
  for (
    const outcome of [async () => {
      throw new Error('broken')
    }, async () => ({ statusCode: 403, headers: {}, body: '' })]
  ) {
    const { call, app, client } = await startGate(t)
    let answered: () => void
    const isAnswered = new Promise<void>(resolve => {
      answered = resolve
    })
    Object.assign(app, {
      inject: async () => {
        client.destroy()
        while (app.grpcSessions() > 0) await new Promise(setImmediate)
        setImmediate(answered)
        return outcome()
      }
    })
    await Promise.allSettled([call(checkRequest({ path: '/open/x' })), isAnswered])
  }
})

t.test('Nothing is kept of a check request that was answered', async t => {
  const { app, call } = await startGate(t)
  const { checkRequestOf } = app
  const asked: Array<Parameters<typeof checkRequestOf>[0]> = []
  app.checkRequestOf = request => {
    asked.push(request)
    return checkRequestOf(request)
  }
  t.equal(read(await call(checkRequest({ path: '/open/x' }))).passed, true)
  t.strictSame(asked.map(checkRequestOf), [undefined])
})
