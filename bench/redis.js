/**
 * What the shared replay store costs: records a second, CPU of this process's main thread and of the server for each,
 * and bytes of the server's memory for each record, beside the same command sent by the client's own means. Run: `npm
 * run build && node bench/redis.js [redis://host:port]`; without a URL it starts a redis-server of its own.
 */
import { spawn } from 'node:child_process'
import { randomBytes, generateKeyPairSync, sign, verify } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { processSurroundings } from '../dist/server/surroundings.js'
import { createReplayStore } from '../dist/lib/guard/replay/create-store.js'

const PORT = 7379
const RECORDS = 1_000_000
const RECORDS_A_RUN = 50_000
const WINDOW = 330

const own = process.argv[2]
  ? undefined
  : spawn('redis-server', [
    '--port',
    String(PORT),
    '--bind',
    '127.0.0.1',
    '--save',
    '',
    '--appendonly',
    'no',
    '--daemonize',
    'no'
  ], { stdio: 'ignore' })
const url = process.argv[2] ?? `redis://127.0.0.1:${PORT}`
if (own) await delay(300)

const admin = new Redis(url)
await admin.flushall()

const keys = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const input = Buffer.alloc(250, 1)
const signature = sign('sha256', input, keys.privateKey)

/** Time that the main thread has spent on a core, in microseconds. */
const mainThreadUs = () => Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'utf8').split(' ')[0]) / 1e3

async function serverCpuUs () {
  const info = await admin.info('cpu')
  const of = name => Number(new RegExp(`${name}:([0-9.]+)`).exec(info)[1])
  return (of('used_cpu_user') + of('used_cpu_sys')) * 1e6
}

/** Makes records as requests do: each after a signature was verified on the thread pool, `inFlight` at a time. */
function drive (record, count, inFlight) {
  return new Promise((resolve, reject) => {
    let left = count
    let open = 0
    const next = () => {
      if (left === 0) return open === 0 ? resolve() : undefined
      left--
      open++
      verify('sha256', input, keys.publicKey, signature, () =>
        record(error => {
          if (error) return reject(error)
          open--
          next()
        }))
    }
    for (let n = 0; n < inFlight; n++) next()
  })
}

async function measure (title, record, inFlight) {
  await drive(record, RECORDS_A_RUN / 10, inFlight)
  const [main, server, start] = [mainThreadUs(), await serverCpuUs(), performance.now()]
  await drive(record, RECORDS_A_RUN, inFlight)
  const seconds = (performance.now() - start) / 1e3
  const perRecord = us => (us / RECORDS_A_RUN).toFixed(1).padStart(6)
  console.log(
    `${title.padEnd(40)} ${String(inFlight).padStart(4)} in flight  ${perRecord(mainThreadUs() - main)} us main ` +
      `thread  ${perRecord(await serverCpuUs() - server)} us server  ${Math.round(RECORDS_A_RUN / seconds)} a ` +
      'second'
  )
}

const store = await createReplayStore({
  store: url,
  maxRecords: 1,
  onEvent: () => {},
  surroundings: processSurroundings
})
while (!store.state().ready) await delay(10)
const single = new Redis(url, { protocol: 2, commandTimeout: 5000 })
const piped = new Redis(url, { protocol: 2, commandTimeout: 5000, enableAutoPipelining: true })
await Promise.all([single.ping(), piped.ping()])
const newKey = () => `holdfast:${randomBytes(16).toString('base64url')}`

for (const inFlight of [8, 64, 256]) {
  await measure('signature alone', done => done(), inFlight)
  await measure(
    'the store',
    done => store.record(randomBytes(32).toString('binary'), 'jkt', Date.now() / 1000 + WINDOW, done),
    inFlight
  )
  await measure(
    'ioredis, a packet for each command',
    done => single.set(newKey(), 1, 'EX', WINDOW, 'NX', done),
    inFlight
  )
  await measure('ioredis, automatic pipelines', done => piped.set(newKey(), 1, 'EX', WINDOW, 'NX', done), inFlight)
}

await admin.flushall()
const usedMemory = async () => Number(/used_memory:(\d+)/.exec(await admin.info('memory'))[1])
const empty = await usedMemory()
const [server, start] = [await serverCpuUs(), performance.now()]
let done = 0
for (let n = 0; n < RECORDS; n += 1000) {
  await Promise.all(Array.from({ length: 1000 }, () =>
    new Promise((resolve, reject) => {
      store.record(randomBytes(32).toString('binary'), 'jkt', Date.now() / 1000 + 86_400, (refusal, first) =>
        refusal || !first ? reject(refusal) : resolve(done++))
    })))
}
console.log(
  `records alone, 1,000 in flight: ${Math.round(RECORDS / (performance.now() - start) * 1e3)} a second, ` +
    `${((await serverCpuUs() - server) / RECORDS).toFixed(2)} us server each`
)
console.log(`memory of the server: ${((await usedMemory() - empty) / RECORDS).toFixed(1)} bytes a record at ${done}`)

await admin.flushall()
store.close()
for (const client of [admin, single, piped]) client.disconnect()
own?.kill()
