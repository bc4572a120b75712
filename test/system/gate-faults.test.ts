import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { bearerLines } from '../helpers/call.ts'
import { startFakeRedis } from '../helpers/fake-redis.ts'
import { GATE_PROXIES } from '../helpers/gate-proxies.ts'
import { openGatedSite, type GatedSite } from '../helpers/gated-site.ts'
import { cutAfter, hung, toPort } from '../helpers/relay.ts'
import { describe, type Arrived } from '../helpers/upstream.ts'
import type { WireAnswer } from '../helpers/wire.ts'

/** Requests in the load, each with a proof of its own that is sent twice. */
const LOAD = 60

const isUndecided = ({ status, headers }: WireAnswer) => status >= 500 && !('www-authenticate' in headers)

async function tryGate (t: Test, site: GatedSite, arrived: readonly Arrived[]) {
  const { relay, send, proofLines, issuer } = site
  const gate = await site.replaceGate()
  // Until the keys are fetched, a busy machine may take longer than this proxy waits.
  for (let tries = 0; tries < 20 && (await send('/api/x', proofLines('/api/x'))).status !== 200;) tries++
  t.equal((await send('/api/x', proofLines('/api/x'))).status, 200, 'all is well')
  const passed = arrived.length
  const refuse = async (title: string) => {
    const answers = await Promise.all([
      send('/api/x', proofLines('/api/x')),
      send('/api/x', bearerLines(issuer.token())),
      send('/open/x')
    ])
    for (const answer of answers) t.ok(isUndecided(answer), `${title}: ${answer.status}`)
    t.equal(arrived.length, passed, `${title}: nothing passes`)
  }

  if (site.proxy.patience) {
    await relay.use(hung)
    await refuse('the gate hangs')
  }
  const asked = () => gate.log.filter(({ msg }) => msg === 'request answered').length
  /** An authorization request whose connection is gone is still answered, and later. */
  const allAsked = async () => {
    for (let seen = -1; seen !== asked(); await delay(200)) seen = asked()
    return asked()
  }
  for (const bytes of [0, 20, 150]) {
    await relay.use(cutAfter(bytes, gate.authorizationPort))
    const before = await allAsked()
    await refuse(`its answer breaks off after ${bytes} bytes`)
    // Over gRPC, all of them are on one connection, and may go down together.
    const repeated = await allAsked() - before
    t.ok(repeated <= 3, `no authorization request is repeated: ${repeated}`)
  }
  await relay.use(toPort(gate.authorizationPort))
  t.equal((await send('/api/x', proofLines('/api/x'))).status, 200, 'all is well again')
  // Connections that were of use are cut when they are used again.
  await relay.use(cutOnSecond(gate.authorizationPort))
  const answers = [await send('/api/x', proofLines('/api/x')), await send('/api/x', proofLines('/api/x'))]
  // A repeated authorization request finds the proof used.
  t.ok(
    answers.every(answer =>
      answer.status === 200 || isUndecided(answer) || (site.proxy.repeatsRequests && answer.status === 401)
    ),
    `a kept connection is cut: ${answers.map(({ status }) => status)}`
  )
  await relay.stop()
  const before = arrived.length
  t.ok(isUndecided(await send('/api/x', proofLines('/api/x'))), 'the gate is dead')
  t.ok(isUndecided(await send('/open/x')), 'the gate is dead, for anyone')
  t.equal(arrived.length, before)
  await relay.use(toPort(gate.authorizationPort))
  await relay.restart()
  t.equal((await send('/api/x', proofLines('/api/x'))).status, 200, 'and back')
}

/** Passes one authorization request on, and cuts the connection when the answer to the next one comes. */
function cutOnSecond (port: number): ReturnType<typeof toPort> {
  return socket => {
    toPort(port)(socket)
    let answers = 0
    const write = socket.write.bind(socket) as (chunk: Buffer) => boolean
    Object.assign(socket, { write: (chunk: Buffer) => ++answers > 1 ? socket.destroy() : write(chunk) })
  }
}

async function tryRestart (t: Test, site: GatedSite, arrived: readonly Arrived[]) {
  const { relay, send, proofLines } = site
  const redis = await startFakeRedis()
  t.teardown(() => redis.stop())
  const values = { DPOP_REPLAY: `redis://127.0.0.1:${redis.port}`, LOG_LEVEL: 'warn' }
  const second = await site.replaceGate(values)
  await site.replaceGate(values)
  const answers: number[] = []
  let next = 0
  // Several clients may see that it is time.
  let stopped: Promise<void> | undefined
  let restarted: Promise<void> | undefined
  const client = async () => {
    while (next < LOAD) {
      const target = `/api/load?${next++}`
      const lines = proofLines('/api/load')
      // What a client may do whose connection has failed.
      for (const answer of await Promise.all([send(target, lines), send(target, lines)])) answers.push(answer.status)
      if (next === LOAD / 3) await (stopped ??= relay.stop())
      if (next === LOAD / 2) {
        await (restarted ??= relay.use(toPort(second.authorizationPort)).then(() => relay.restart()))
      }
    }
  }
  await Promise.all([client(), client(), client(), client()])
  const counts = new Map<string, number>()
  for (const { target } of arrived) {
    if (target.startsWith('/api/load')) counts.set(target, (counts.get(target) ?? 0) + 1)
  }
  t.strictSame([...counts].filter(([, count]) => count > 1), [], 'no proof reaches the application twice')
  t.equal(answers.filter(status => status === 200).length, counts.size, 'each that reached it was answered')
  t.strictSame(answers.filter(status => ![200, 401].includes(status) && status < 500), [])
  t.ok(
    answers.some(status => status >= 500) && counts.size > LOAD / 3,
    `some fell into the gap, and ${counts.size} passed`
  )
  t.equal((await send('/api/x', proofLines('/api/x'))).status, 200)

  redis.override = () => 'close'
  await redis.stop()
  const before = arrived.length
  t.match(
    await send('/api/x', proofLines('/api/x')),
    { status: 503, headers: { 'retry-after': /^\d+$/ } },
    'the store is gone'
  )
  t.equal(arrived.length, before)
}

async function tryApplication (t: Test, site: GatedSite, arrived: readonly Arrived[]) {
  const { send, proofLines, upstream, issuer } = site
  await site.replaceGate()
  for (let tries = 0; tries < 20 && (await send('/api/x', proofLines('/api/x'))).status !== 200;) tries++
  const count = (target: string) => arrived.filter(each => each.target === target).length
  for (const target of ['/api/half', '/api/drop', '/api/early']) {
    // The connection to the application has been of use.
    t.equal((await send('/api/x', proofLines('/api/x'))).status, 200)
    const lines = proofLines(target)
    const answer = await send(target, lines).catch(() => undefined)
    t.ok(
      answer === undefined || (target === '/api/half' && answer.body.length < 100) || isUndecided(answer),
      `${target}: ${answer?.status}`
    )
    t.equal(count(target), 1, `${target} is sent once`)
    t.equal((await send(target, lines)).status, 401, 'and its proof is used')
  }
  /** A proxy that is this impatient, on a busy machine, may not pass it on at first. */
  const sendSlow = async (): Promise<WireAnswer> => {
    const answer = await send('/api/slow', bearerLines(issuer.token()))
    return count('/api/slow') === 0 ? sendSlow() : answer
  }
  const slow = sendSlow()
  t.equal((await send('/api/x', proofLines('/api/x'))).status, 200, 'a slow answer delays no other request')
  while (count('/api/slow') === 0) await send('/open/x')
  upstream.server.emit('hurry')
  t.equal((await slow).status, 200)
  upstream.server.closeAllConnections()
  await new Promise(resolve => upstream.server.close(resolve))
  const dead = await send('/api/x', proofLines('/api/x'))
  t.ok(isUndecided(dead), `the application is dead: ${dead.status}`)
}

for (const proxy of GATE_PROXIES) {
  t.test(`Behind ${proxy.name} nothing passes undecided, and no proof twice.`, {
    skip: proxy.program === undefined && `${proxy.name} is not installed`
  }, async t => {
    const arrived: Arrived[] = []
    const site = await openGatedSite(t, proxy, {
      isImpatient: true,
      answer (request, response) {
        if (request.url !== '/api/early') request.resume()
        arrived.push(describe(request, ''))
        switch (request.url) {
          case '/api/drop':
          case '/api/early':
            return request.socket.destroy()
          case '/api/half':
            response.writeHead(200, { 'content-length': 100 }).write('half', () => request.socket.destroy())
            break
          case '/api/slow':
            site.upstream.server.once('hurry', () => response.end('late'))
            break
          default:
            response.end('ok')
        }
      }
    })
    await t.test('A gate that hangs, breaks off or is dead', t => tryGate(t, site, arrived))
    await t.test('A gate that is restarted under load, and its store', t => tryRestart(t, site, arrived))
    await t.test('An application that is slow, breaks off or is dead', t => tryApplication(t, site, arrived))
  })
}
