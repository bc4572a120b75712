import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createDpopClient, type DpopClient } from '../helpers/dpop-client.ts'
import { freePort } from '../helpers/free-port.ts'
import { buildService, startInstance, type Instance } from '../helpers/instance.ts'
import { INSTANCE_PROXIES } from '../helpers/instance-proxies.ts'
import { startIssuer, type Issuer } from '../helpers/issuer.ts'
import { sendRaw } from '../helpers/wire.ts'

/** Three instances without a common store, behind each proxy with its file of deploy/. */
const API = 'https://api.test.example'
const PATH = '/api/private'
const CLIENTS = 40
/** For a longer run: ROUNDS=100 node ... this file. */
const ROUNDS = Number(process.env['ROUNDS'] ?? 5)

t.setTimeout(600_000)

let directory = ''
let issuer: Issuer

async function send (base: string, token: string, proof: string) {
  const answer = await fetch(base + PATH, { headers: { authorization: `DPoP ${token}`, dpop: proof } })
  await answer.arrayBuffer()
  return {
    status: answer.status,
    error: /error="(\w+)"/.exec(answer.headers.get('www-authenticate') ?? '')?.[1],
    nonce: answer.headers.get('dpop-nonce')
  }
}

/** A client that keeps the newest nonce, and tries once more if another one is required. */
interface Visitor {
  token: string
  nonce: string | undefined
  client: DpopClient
}

interface Sent {
  token: string
  proof: string
}

/** What has happened to requests so far. */
interface Account {
  answered: number
  challenges: number
  gaveUp: number
  /** Without an answer: a proxy had sent it to an instance that was killed, and may not send it again. */
  cut: number
  accepted: Sent[]
}

const openAccount = () => ({ answered: 0, challenges: 0, gaveUp: 0, cut: 0, accepted: [] })
const newToken = ({ jkt }: DpopClient) => issuer.token({ cnf: { jkt } })

async function visit (base: string, visitor: Visitor, account: Account) {
  let tries = 2
  while (tries-- > 0) {
    const { token, client, nonce } = visitor
    const proof = client.proof({ token, url: API + PATH, claims: { nonce } })
    const answer = await send(base, token, proof).catch(() => undefined)
    account.answered++
    if (answer === undefined) {
      // As a browser does, once: what was sent reached nobody.
      if (account.cut++ === CLIENTS) throw new Error('no answer, again and again')
      tries++
      continue
    }
    visitor.nonce = answer.nonce ?? nonce
    if (answer.status === 200) {
      account.accepted.push({ token, proof })
      return
    }
    if (answer.error !== 'use_dpop_nonce') throw new Error(`${answer.status} ${answer.error}`)
    account.challenges++
    if (tries === 0) account.gaveUp++
  }
}

/** All visitors at once, each with one request after the other. */
async function visitAll (base: string, visitors: readonly Visitor[], rounds: number) {
  const account = openAccount()
  await Promise.all(visitors.map(async visitor => {
    for (let round = 0; round < rounds; round++) await visit(base, visitor, account)
  }))
  return account
}

/** How many of these proofs pass again, at any instance. Each is a replay: it was accepted before. */
async function replayAll (
  instances: readonly Instance[],
  proofs: readonly Sent[]
) {
  let accepted = 0
  for (let at = 0; at < proofs.length; at += CLIENTS) {
    const some = proofs.slice(at, at + CLIENTS).flatMap(proof =>
      instances.map(instance => send(instance.url, proof.token, proof.proof))
    )
    for (const { status } of await Promise.all(some)) if (status !== 401) accepted++
  }
  return { sent: proofs.length * instances.length, accepted }
}

async function meetVisitors (): Promise<Visitor[]> {
  const clients = await Promise.all(Array.from({ length: CLIENTS }, () => createDpopClient()))
  return clients.map(client => ({ client, token: newToken(client), nonce: undefined }))
}

t.before(async () => {
  directory = buildService(t)
  issuer = await startIssuer(t)
})

const launch = (t: Test, port: number) =>
  startInstance(t, directory, issuer, { PUBLIC_URL: API, DPOP_NONCE: 'required', PORT: String(port) })

for (const proxy of INSTANCE_PROXIES) {
  t.test(
    `Behind ${proxy.name}, three instances without a store accept each proof once, and a client pays one challenge`,
    { skip: proxy.program === undefined && `${proxy.name} is not installed` },
    async t => {
      const ports = [await freePort(), await freePort(), await freePort()]
      const instances = await Promise.all(ports.map(port => launch(t, port)))
      for (const instance of instances) await instance.untilReady()
      const port = await freePort()
      const site = `http://127.0.0.1:${port}`
      await proxy.start(t, { port, instances: ports, isRoundRobin: false })
      const visitors = await meetVisitors()
      const report = (what: string, { answered, challenges, gaveUp, cut }: Account) =>
        t.comment(`${proxy.name}, ${what}: ${answered} requests, ${challenges} challenges, ${gaveUp} gave up, ${cut} cut`)

      const first = await visitAll(site, visitors, ROUNDS)
      report('first visits', first)
      t.strictSame(
        [first.accepted.length, first.challenges, first.gaveUp, first.cut],
        [CLIENTS * ROUNDS, CLIENTS, 0, 0],
        'each client pays once, and all get through'
      )
      t.equal((await fetch(site + PATH)).headers.get('keep-alive'), null, 'an instance promises nothing for its proxy')
      const answers = ['/api/public', '/metrics', '/%6detrics?x', '/metrics#x', '/health/live', '/heal%74h/live'].map(path =>
        sendRaw(site, [`GET ${path} HTTP/1.1`, `Host: 127.0.0.1:${port}`, 'Connection: close'])
      )
      const [open, ...inside] = (await Promise.all(answers)).map(({ status }) => status)
      t.equal(open, 200)
      t.strictSame(inside.map(status => status === 400 || status === 404), inside.map(() => true), 'what is for monitoring inside')

      const homes = new Set(visitors.map(({ nonce }) => nonce!.slice(0, 4)))
      t.ok(homes.size > 1, 'clients are at several instances; chance decides whether at all three')

      const renewed = openAccount()
      for (let n = 0; n < 100; n++) {
        const visitor = visitors[n % CLIENTS]!
        visitor.token = newToken(visitor.client)
        await visit(site, visitor, renewed)
      }
      report('new tokens', renewed)
      t.strictSame([renewed.accepted.length, renewed.challenges, renewed.cut], [100, 0, 0], 'a new token costs no challenge')

      const proofs = [...first.accepted, ...renewed.accepted]
      const replays = await replayAll(instances, proofs)
      t.comment(`${proxy.name}: ${replays.sent} replays, ${replays.accepted} accepted`)
      t.equal(replays.accepted, 0)

      const once = visitors[0]!
      const fresh = once.client.proof({ token: once.token, url: API + PATH, claims: { nonce: once.nonce } })
      const copies = await Promise.all(
        Array.from({ length: 150 }, (_, n) => send(n % 2 === 0 ? site : instances[n % 3]!.url, once.token, fresh))
      )
      t.equal(
        copies.filter(({ status }) => status === 200).length,
        1,
        'of 150 copies at once, one passes'
      )

      const lost = instances[1]!
      lost.signal('SIGKILL')
      await lost.ended
      // Until HAProxy has asked it twice: whoever is moved by a failed request may be moved once more by that.
      await delay(2_500)
      const without = await visitAll(site, visitors, 2)
      report('one is killed', without)
      t.strictSame(
        [without.accepted.length, without.gaveUp],
        [CLIENTS * 2, 0],
        'while it is down, the others serve its clients'
      )
      t.ok(without.challenges > 0 && without.challenges < CLIENTS, 'those that move pay, the others do not')

      instances[1] = await launch(t, ports[1]!)
      await instances[1].untilReady()
      const afterwards = await replayAll(instances, [...proofs, ...without.accepted])
      t.comment(`${proxy.name}, after its restart: ${afterwards.sent} replays, ${afterwards.accepted} accepted`)
      t.equal(afterwards.accepted, 0, 'an instance that has forgotten its proofs has forgotten their nonces too')
      const back = await visitAll(site, visitors, 2)
      report('it is back', back)
      t.strictSame([back.accepted.length, back.gaveUp, back.cut], [CLIENTS * 2, 0, 0])

      const otherPort = await freePort()
      await proxy.start(t, { port: otherPort, instances: ports, isRoundRobin: true })
      const scattered = await visitAll(`http://127.0.0.1:${otherPort}`, await meetVisitors(), ROUNDS)
      report('round robin', scattered)
      t.ok(scattered.gaveUp > 0, 'with a round robin, clients that try once more do not all get through')
      t.equal((await replayAll(instances, scattered.accepted)).accepted, 0, 'and still each proof passes once')
    }
  )
}
