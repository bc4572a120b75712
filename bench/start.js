import { residentBytes } from './kernel.js'
import { startHoldfast } from './holdfast.js'
import { awaitQuiet, median } from './measure.js'
import { contender, startServer } from './processes.js'

/** From the start of the process to the first 200 of /api/public, keys not yet fetched; a bare Fastify beside it. */
export const start = async bench => {
  const times = { holdfast: [], bare: [] }
  let rssBytes
  await awaitQuiet(bench)
  for (let i = 0; i < (bench.quick ? 3 : 9); i++) {
    const server = await startHoldfast(bench, 'start')
    if (server === null) return null
    times.holdfast.push(server.startMs)
    rssBytes = residentBytes(server.pid).now
    await server.stop()
    const bare = await startServer(contender('bare'))
    times.bare.push(bare.startMs)
    await bare.stop()
  }
  bench.say(
    `ready after ${median(times.holdfast).toFixed(0)} ms; bare Fastify after ${median(times.bare).toFixed(0)} ms`
  )
  return {
    holdfastMs: median(times.holdfast),
    worstMs: Math.max(...times.holdfast),
    bareMs: median(times.bare),
    rssBytes
  }
}
