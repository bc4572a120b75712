import { setTimeout as sleep } from 'node:timers/promises'
import { cpuTime } from '../../bench/kernel.js'
import { HOST } from '../../bench/provider.js'
import { openConnections, saturate } from '../../bench/wire.js'

const WARM = 6_000
const MEASURED = 10_000

const request = (token, connection) =>
  Buffer.from(
    `GET /api/private HTTP/1.1\r\nHost: ${HOST}\r\nConnection: ${connection}\r\nAuthorization: Bearer ${token}\r\n\r\n`
  )

/** CPU of one accepted request in microseconds, once the code is compiled. */
export const costOfAccepted = async (server, token) => {
  const open = await openConnections(server.port, 16)
  const stream = { batch: [request(token, 'keep-alive')], expect: { status: 200 } }
  await saturate(open, { ...stream, count: WARM })
  const before = cpuTime(server.pid).totalNs
  const { wrong, sample } = await saturate(open, { ...stream, count: MEASURED })
  const cpuUs = (cpuTime(server.pid).totalNs - before) / MEASURED / 1000
  open.close()
  if (wrong > 0) throw new Error(`honest requests are refused:\n${sample}`)
  return cpuUs
}

/** One honest request after the other, each on its own connection, until stopped. */
export const askHonestly = (server, token) => {
  const asked = { count: 0, answered: 0, worstMs: 0 }
  const stop = new AbortController()
  const done = (async () => {
    while (!stop.signal.aborted) {
      asked.count++
      try {
        const open = await openConnections(server.port, 1)
        const { wrong, maxMs } = await Promise.race([
          saturate(open, { batch: [request(token, 'close')], count: 1, expect: { status: 200 } }),
          sleep(20_000, { wrong: 1, maxMs: 20_000 })
        ])
        open.close()
        asked.answered += 1 - wrong
        asked.worstMs = Math.max(asked.worstMs, maxMs)
      } catch {} // Not answered.
      await sleep(50)
    }
  })()
  return async () => {
    stop.abort()
    await done
    return asked
  }
}

/** CPU of one such request with its connection, and of the time until the next, without other load. */
export const costOfHonest = async (server, token) => {
  const before = cpuTime(server.pid).totalNs
  const stopAsking = askHonestly(server, token)
  await sleep(2_000)
  const { count } = await stopAsking()
  return (cpuTime(server.pid).totalNs - before) / count / 1000
}
