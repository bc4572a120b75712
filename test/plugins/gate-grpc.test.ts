import { once } from 'node:events'
import { connect } from 'node:http2'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import Fastify from 'fastify'
import t from 'tap'
import type { Test } from 'tap'
import { holdfast, readSettings } from '../../holdfast.ts'
import { startApp } from '../helpers/app.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { CHECK_PATH, readCheckRequest, writeDenied, writePassed } from '../../lib/gate/ext-authz.ts'
import { createNonces } from '../../lib/dpop/nonces.ts'
import { field, readFields } from '../../lib/gate/protobuf.ts'
import type { Fields } from '../../lib/gate/protobuf.ts'

const RULES = [{ path: '/open/*', allow: 'anyone' }, { path: '/any/*' }]

async function startGate (t: Test, gate: object = {}, values: object = {}) {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer, { GATE: { rules: RULES, grpcPort: 0, ...gate }, TRUST_PROXY: 'loopback', ...values })
  // The port opens after the one of the service.
  while (!running.app.grpcAddress()) await new Promise(resolve => setImmediate(resolve))
  const client = connect(`http://127.0.0.1:${running.app.grpcAddress()!.port}`)
  t.teardown(() => { client.destroy() })
  return { ...running, issuer, client, call: (body: Buffer, path = CHECK_PATH) => call(client, path, body) }
}

interface GrpcAnswer {
  readonly status: string
  readonly message: Buffer
  /** The length that stands before the message. */
  readonly length: number | undefined
  readonly headers: Record<string, unknown>
}

function call (client: ReturnType<typeof connect>, path: string, body: Buffer): Promise<GrpcAnswer> {
  return new Promise((resolve, reject) => {
    const stream = client.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' })
    const chunks: Buffer[] = []
    let status: unknown
    let seen = {}
    stream.on('response', headers => { seen = headers; status = headers['grpc-status'] })
    stream.on('trailers', trailers => { status = trailers['grpc-status'] })
    stream.on('data', chunk => chunks.push(chunk))
    stream.on('error', reject)
    stream.on('close', () => {
      const frame = Buffer.concat(chunks)
      resolve({ status: String(status), message: frame.subarray(5), length: frame.length === 0 ? undefined : frame.readUInt32BE(1), headers: seen })
    })
    stream.end(body)
  })
}

function frame (message: Buffer): Buffer {
  const head = Buffer.alloc(5)
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}

/** A question as Envoy sends it, with fields that are passed over. */
function question ({ method = 'GET', path = '/any/x', host = 'api.example', scheme = 'https', headers = {}, raw = [] }: {
  method?: string | null, path?: string | null, host?: string | null, scheme?: string | null, headers?: Record<string, string>, raw?: ReadonlyArray<readonly [string, string]>
}): Buffer {
  const http = Buffer.concat([
    ...method === null ? [] : [field(2, method)],
    ...Object.entries(headers).map(([name, value]) => field(3, Buffer.concat([field(1, name), field(2, value)]))),
    ...[path, host, scheme].flatMap((text, index) => text === null ? [] : [field(4 + index, text)]), field(9, 12345678),
    ...raw.length > 0 ? [field(13, Buffer.concat(raw.map(([name, value]) => field(1, Buffer.concat([field(1, name), field(3, value)])))))] : []
  ])
  const source = Buffer.concat([Buffer.from([0x0d, 1, 2, 3, 4]), Buffer.from([0x11, 1, 2, 3, 4, 5, 6, 7, 8])])
  return frame(field(1, Buffer.concat([field(1, source), field(4, field(2, http))])))
}

const sub = (fields: Fields, number: number): Fields => readFields(fields.get(number)?.at(-1) ?? Buffer.alloc(0))

const headersOf = (fields: Fields, number: number): Record<string, string> => Object.fromEntries((fields.get(number) ?? []).map(option => {
  const header = sub(readFields(option), 1)
  return [header.get(1)![0]!.toString(), header.get(2)![0]!.toString()]
}))

interface Verdict {
  readonly passed: boolean
  readonly headers: Record<string, string>
  readonly body: string | undefined
  readonly removed: readonly string[]
  readonly answer: Record<string, string>
}

function read ({ message }: GrpcAnswer): Verdict {
  const response = readFields(message)
  const ok = response.get(3)
  const part = ok ? sub(response, 3) : sub(response, 2)
  return { passed: ok !== undefined, headers: headersOf(part, 2), body: part.get(3)?.[0]?.toString(), removed: (part.get(5) ?? []).map(String), answer: headersOf(part, 6) }
}

t.test('Fields are written and read as Protocol Buffers say.', t => {
  // The examples of the encoding guide.
  t.same(field(1, 150), Buffer.from('089601', 'hex'))
  t.same(field(2, 'testing'), Buffer.from('120774657374696e67', 'hex'))
  t.same(readFields(Buffer.from('089601120774657374696e67', 'hex')), new Map([[2, [Buffer.from('testing')]]]))
  t.same(readFields(Buffer.from('0d01020304' + '110102030405060708', 'hex')), new Map(), 'fields of a fixed length')
  t.same(readFields(Buffer.from('120161' + '1a0162' + '12' + '00', 'hex')), new Map([[2, [Buffer.from('a'), Buffer.from('')]], [3, [Buffer.from('b')]]]), 'a field that is repeated, and one that is empty')
  t.same(field(3, Buffer.alloc(300)), Buffer.concat([Buffer.from('1aac02', 'hex'), Buffer.alloc(300)]), 'a length of two bytes')
  t.same(readFields(field(2000, 'a')).get(2000), [Buffer.from('a')], 'a number of two bytes')
  t.same([field(1, 127), field(1, 128), field(1, 0)].map(bytes => bytes.toString('hex')), ['087f', '088001', '0800'])
  t.same(readFields(Buffer.from('08ffffffffffffffffff01' + '120161', 'hex')), new Map([[2, [Buffer.from('a')]]]), 'a number of ten bytes is passed over')
  const faults: ReadonlyArray<readonly [bytes: string, message: string]> = [
    ['12', 'The message is cut off'], ['120774', 'The message is cut off'], ['08', 'The message is cut off'], ['0d010203', 'The message is cut off'], ['1101020304050607', 'The message is cut off'],
    ['0b', 'The message has a field of an unknown kind'], ['0e', 'The message has a field of an unknown kind'],
    ['08ffffffffffffffffffff01', 'The message has a number without end'], ['08' + '80'.repeat(10) + '00', 'The message has a number without end']
  ]
  for (const [bytes, message] of faults) t.throws(() => readFields(Buffer.from(bytes, 'hex')), { name: 'MessageError', message }, bytes)
  t.end()
})

t.test('Questions are read and answers are written as the files of Envoy say.', t => {
  t.same(readCheckRequest(Buffer.alloc(0)), { method: '', path: '', host: '', scheme: '', headers: new Map() }, 'nothing that is missing has a value')
  const entry = (...parts: Buffer[]): Buffer => Buffer.concat(parts)
  const http = Buffer.concat([
    field(2, 'PUT'), field(2, 'GET'), field(4, '/a'), field(5, 'api.example'), field(6, 'https'),
    field(3, entry(field(1, 'X-One'), field(2, 'a'))), field(3, entry(field(1, 'x-one'), field(2, 'b'))), field(3, entry(field(1, 'x-empty'))),
    field(13, field(1, entry(field(1, 'x-raw'), field(3, 'c'))))
  ])
  t.same(readCheckRequest(field(1, field(4, field(2, http)))), {
    method: 'GET', path: '/a', host: 'api.example', scheme: 'https', headers: new Map([['x-one', ['a', 'b']], ['x-empty', ['']], ['x-raw', ['c']]])
  }, 'the last of two, names in lower case, all values of a name')

  // The header, then append_action: OVERWRITE_IF_EXISTS_OR_ADD, and keep_empty_value.
  const option = (name: string, value: string): Buffer => Buffer.concat([field(1, Buffer.concat([field(1, name), field(2, value)])), field(3, 2), field(4, 1)])
  t.same(writePassed({ set: [['x-a', '']], remove: ['dpop'], answer: [['dpop-nonce', 'n']] }), Buffer.concat([
    field(1, field(1, 0)), field(3, Buffer.concat([field(2, option('x-a', '')), field(5, 'dpop'), field(6, option('dpop-nonce', 'n'))]))
  ]))
  t.same(writeDenied({ status: 401, headers: [['www-authenticate', 'DPoP']], body: '{}' }), Buffer.concat([
    field(1, field(1, 7)), field(2, Buffer.concat([field(1, field(1, 401)), field(2, option('www-authenticate', 'DPoP')), field(3, '{}')]))
  ]))
  t.end()
})

t.test('Envoy asks over gRPC, and gets the answers of the guard.', async t => {
  const { call, issuer, app } = await startGate(t)
  const client = await createDpopClient()
  const token = issuer.token({ cnf: { jkt: client.jkt } })
  const proof = (): Record<string, string> => ({ authorization: `DPoP ${token}`, dpop: client.proof({ token, url: 'https://api.example/any/x' }) })
  const headers = proof()

  const passed = read(await call(question({ path: '/any/x?q', headers: { ...headers, x_auth_subject: 'root', 'x-auth-subject': 'root' } })))
  t.match(passed, { passed: true, headers: { 'x-auth-subject': 'user-1', 'x-auth-client': '' }, removed: ['authorization', 'dpop', 'x_auth_subject'], answer: {} })
  t.same(passed.removed, ['authorization', 'dpop', 'x_auth_subject'])
  t.same(passed.answer, {})
  t.same(Object.keys(passed.headers).sort(), ['x-auth-client', 'x-auth-issuer', 'x-auth-scope', 'x-auth-subject'])
  t.equal(app.grpcSessions(), 1, 'a session that the end of the service closes')
  const replayed = read(await call(question({ headers })))
  t.match(replayed, { passed: false, headers: { 'www-authenticate': /invalid_dpop_proof/, 'content-type': /json/ }, body: /used before/ })
  t.same(Object.keys(replayed.headers).sort(), ['cache-control', 'content-type', 'www-authenticate'])
  t.equal(replayed.headers['cache-control'], 'no-store')
  t.equal(read(await call(question({ path: '/any/y', headers: proof() }))).passed, false, 'the proof of another path')
  const { dpop, authorization } = proof()
  t.equal(read(await call(question({ raw: [['authorization', authorization!], ['dpop', dpop!.slice(0, 99)], ['dpop', dpop!.slice(99)]] }))).passed, false, 'a proof in two lines')
  const { status, headers: head, message, length } = await call(question({ path: '/open/x' }))
  t.match({ status, head, length }, { status: '0', head: { ':status': 200, 'content-type': 'application/grpc' }, length: message.length })
  t.equal(read(await call(question({ raw: Object.entries(proof()) }))).passed, true, 'raw headers')
  t.equal(read(await call(question({ raw: [...Object.entries(proof()), ['DPoP', 'another']] }))).passed, false, 'two proofs')
  t.equal(read(await call(question({ path: '/open/x' }))).passed, true, 'anyone')
  for (const [title, parts] of Object.entries({ rule: { path: '/elsewhere' }, path: { path: '/open/../any' }, host: { host: '' }, scheme: { scheme: '' }, method: { method: 'x' }, 'no path': { path: null }, 'no host': { path: '/open/x', host: null }, 'no scheme': { path: '/open/x', scheme: null }, 'no method': { path: '/open/x', method: null } })) {
    t.equal(read(await call(question({ ...parts, headers: { authorization: `Bearer ${issuer.token()}` } }))).passed, false, title)
  }
})

t.test('A new nonce reaches the client, and credentials the upstream if they are to be passed on.', async t => {
  const { call, issuer } = await startGate(t, { passCredentials: true }, { DPOP_NONCE: 'required', DPOP_NONCE_SECRET: ['x'.repeat(43)] })
  const client = await createDpopClient()
  const token = issuer.token({ cnf: { jkt: client.jkt } })
  const put = async (nonce?: string): Promise<Verdict> => read(await call(question({ headers: { authorization: `DPoP ${token}`, dpop: client.proof({ token, url: 'https://api.example/any/x', claims: { nonce } }) } })))
  const first = await put()
  t.match(first, { passed: false, headers: { 'www-authenticate': /use_dpop_nonce/ } })
  const accepted = await put(first.headers['dpop-nonce'])
  t.same([accepted.passed, accepted.removed, accepted.answer], [true, [], {}])
  const older = createNonces([Buffer.from('x'.repeat(43), 'base64url')]).current(Date.now() / 1000 - 120)
  const renewed = await put(older)
  t.same([renewed.passed, Object.keys(renewed.answer)], [true, ['dpop-nonce']], 'the newest nonce goes to the client')
})

t.test('Only trusted peers may ask, and only what is a question.', async t => {
  const { call } = await startGate(t, {}, { TRUST_PROXY: '10.0.0.0/8' })
  t.equal(read(await call(question({ path: '/open/x' }))).passed, false)
  t.match(await call(question({}), '/other.Service/Check'), { status: '12', length: undefined, headers: { ':status': 200, 'content-type': 'application/grpc' } })
  t.equal((await call(Buffer.alloc(0))).status, '3')
  t.equal((await call(Buffer.from([1, 0, 0, 0, 0]))).status, '3', 'compressed')
  t.equal((await call(Buffer.from([0, 0, 0, 0, 9]))).status, '3', 'cut off')
  t.equal((await call(frame(Buffer.from([0x0a, 9])))).status, '3', 'no message')
  const empty = await call(frame(Buffer.alloc(0)))
  t.same([empty.status, read(empty).passed], ['0', false], 'a message without fields is a question, about nothing')
  await t.rejects(call(frame(Buffer.alloc(300_000))), 'too large')
})

t.test('A message may be as large as the limit, and no larger.', async t => {
  const { call } = await startGate(t)
  const most = 256 * 1024
  const padded = (bytes: number): Buffer => question({ path: '/open/x', headers: { 'x-pad': 'a'.repeat(bytes) } })
  const sized = (bytes: number): Buffer => padded(bytes - padded(most / 2).length + most / 2)
  t.equal(sized(most).length, most)
  t.equal(read(await call(sized(most))).passed, true)
  await t.rejects(call(sized(most + 1)), { code: 'ERR_HTTP2_STREAM_ERROR', message: /ENHANCE_YOUR_CALM/ })
})

t.test('The log says where Envoy may ask, and Envoy learns how many questions it may put at once.', async t => {
  const { app, client, log } = await startGate(t)
  if (client.connecting) await once(client, 'connect')
  if (client.remoteSettings.maxConcurrentStreams !== 1000) await once(client, 'remoteSettings')
  t.equal(client.remoteSettings.maxConcurrentStreams, 1000)
  t.match(log.filter(({ event }) => event === 'grpc_listening'), [{ level: 30, port: app.grpcAddress()!.port, msg: 'grpc listening' }])
})

t.test('The end of the service ends the connections of Envoy, and its port.', async t => {
  const { app, client, call } = await startGate(t)
  t.equal(read(await call(question({ path: '/open/x' }))).passed, true)
  const { port } = app.grpcAddress()!
  const ended = once(client, 'close')
  app.server.close()
  await Promise.all([app.close(), ended])
  t.equal(app.grpcSessions(), 0)
  t.equal(app.grpcAddress(), undefined)
  await t.rejects(once(connect(`http://127.0.0.1:${port}`), 'connect'), { code: 'ECONNREFUSED' })
})

t.test('A client with too many requests is told when to come again.', async t => {
  const { call, issuer } = await startGate(t, {}, { RATE_LIMIT: '1' })
  const put = async (): Promise<Verdict> => read(await call(question({ headers: { authorization: `Bearer ${issuer.token()}` } })))
  t.equal((await put()).passed, true)
  t.match(await put(), { passed: false, headers: { 'retry-after': /^\d+$/ } })
})

t.test('Without a port nobody is listened to, and an app that never listened can be closed.', async t => {
  const { app } = await startApp(t, await startIssuer(t), { GATE: { rules: RULES } })
  await new Promise(resolve => setImmediate(resolve))
  t.same([app.grpcAddress(), app.grpcSessions()], [undefined, 0])
  const settings = await readSettings({ IDP_ISSUER: 'https://tenant.example/', IDP_AUDIENCE: 'x', GATE: { rules: [], grpcPort: 0 } })
  const silent = Fastify()
  await silent.register(holdfast, { settings })
  await silent.ready()
  t.equal(silent.grpcAddress(), undefined)
  await silent.close()
})

t.test('A port that is taken ends the start.', async t => {
  const taken = createServer()
  await new Promise<void>(resolve => taken.listen(0, '127.0.0.1', resolve))
  t.teardown(() => taken.close())
  const { port } = taken.address() as AddressInfo
  const failed = new Promise<Error>(resolve => {
    startIssuer(t).then(issuer => startApp(t, issuer, { GATE: { rules: RULES, grpcPort: port } }, app => { app.server.on('error', resolve) }))
  })
  t.match(await failed, { code: 'EADDRINUSE', port, setting: 'gate.grpcPort' })
})

t.test('A fault of our own is an error of gRPC, and nothing passes.', async t => {
  const { call, app, log } = await startGate(t)
  Object.assign(app, { inject: async () => { throw new Error('broken') } })
  t.equal((await call(question({ path: '/open/x' }))).status, '13')
  t.match(log.filter(({ level }) => level >= 50), [{ err: { message: 'broken' }, msg: 'question failed' }])
})

t.test('An answer that nobody waits for any more is dropped.', async t => {
  for (const outcome of [async () => { throw new Error('broken') }, async () => ({ statusCode: 403, headers: {}, body: '' })]) {
    const { call, app, client } = await startGate(t)
    let answered: () => void
    const isAnswered = new Promise<void>(resolve => { answered = resolve })
    Object.assign(app, {
      inject: async () => {
        client.destroy()
        while (app.grpcSessions() > 0) await new Promise(resolve => setImmediate(resolve))
        setImmediate(answered)
        return outcome()
      }
    })
    await Promise.allSettled([call(question({ path: '/open/x' })), isAnswered])
  }
})
