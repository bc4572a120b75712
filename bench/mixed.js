import { startHoldfast } from './holdfast.js'
import { awaitQuiet, median, round, warmUp } from './measure.js'

const PROBES = 300 // requests a second for /api/public, spread among the others
const SHARE = 0.7

/**
 * How long /api/public takes while other requests keep the service busy: DPoP requests at 70 % of the most that it
 * takes, against as many public requests a second. Requests leave at random moments, whether or not earlier ones were
 * answered.
 */
export const mixed = async bench => {
  const server = await startHoldfast(bench, 'mixed load')
  if (server === null) return null
  const dpopMost = await warmUp(bench, server, 'dpop', 'dpop', bench.plan.warmSeconds)
  await warmUp(bench, server, 'public', 'public', bench.plan.warmSeconds)
  const loads = [
    { id: 'dpop', kind: 'dpop', rate: dpopMost * SHARE },
    { id: 'public, as many requests', kind: 'public', rate: dpopMost * SHARE }
  ]
  // Shorter than the time that a connection has for its first request.
  const seconds = bench.quick ? 2 : 6
  const taken = new Map(loads.map(({ id }) => [id, []]))
  for (let i = 0; i < (bench.quick ? 1 : 7); i++) {
    await awaitQuiet(bench)
    for (const { id, kind, rate } of loads) {
      // The probes come first in the list: the figures of latency are those of the first stream.
      const figures = await round(bench, server, id, [
        { name: 'public', count: Math.round(PROBES * seconds), rate: PROBES },
        { name: kind, count: Math.round(rate * seconds), rate, connections: 128 }
      ])
      taken.get(id).push(figures)
      bench.say(
        `${id} at ${rate.toFixed(0)} a second: /api/public p50 ${figures.p50Ms.toFixed(2)} ms, p99 ` +
          `${figures.p99Ms.toFixed(2)} ms`
      )
    }
  }
  return {
    probesPerSecond: PROBES,
    loads: loads.map(({ id, rate }) => {
      const of = name => median(taken.get(id).map(one => one[name]))
      return { id, rate, serverShare: of('serverShare'), p50Ms: of('p50Ms'), p99Ms: of('p99Ms'), maxMs: of('maxMs') }
    })
  }
}
