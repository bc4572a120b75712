import { awaitQuiet, median, round } from './measure.js'
import { contender, startServer } from './processes.js'

/**
 * What each kind of request costs beside the accepted one that it is `like`, and what only Node spends on the same
 * bytes.
 * @param kinds as `likes` of load.js returns them, all with `like`
 * @param serverOf the server of a kind, by name
 * @param countOf the number of requests in a round, by name
 */
export const measureBeside = async (bench, kinds, { serverOf, countOf, rounds }) => {
  const node = await startServer(contender('node'))
  bench.cleanUp(node.stop)
  const costOfBytes = name =>
    round(bench, node, `${name}, bare node:http`, [{ name, count: countOf(name), status: 200, anyError: true }])
  const cost = name => round(bench, serverOf(name), name, [{ name, count: countOf(name) }])
  const costs = new Map(kinds.map(({ name }) => [name, []]))
  // Each kind once, unmeasured, so that no path is compiled while it is measured.
  for (const name of new Set([...kinds.map(({ like }) => like), ...kinds.map(({ name }) => name)])) await cost(name)
  for (const { name } of kinds) await costOfBytes(name)
  for (let i = 0; i < rounds; i++) {
    await awaitQuiet(bench)
    // One right after the other: the speed of the machine drifts.
    for (const { name, like } of kinds) {
      costs.get(name).push({ accepted: await cost(like), refused: await cost(name), bytes: await costOfBytes(name) })
    }
  }
  return kinds.map(({ name, like, status, large = false }) => {
    const of = figure => median(costs.get(name).map(figure))
    return {
      name,
      like,
      status,
      large,
      cpuUs: of(one => one.refused.cpuUs),
      mainUs: of(one => one.refused.mainUs),
      acceptedUs: of(one => one.accepted.cpuUs),
      bytesUs: of(one => one.bytes.cpuUs),
      ratio: of(one => one.refused.cpuUs / one.accepted.cpuUs),
      beyondBytes: of(one => (one.refused.cpuUs - one.bytes.cpuUs) / one.accepted.cpuUs)
    }
  })
}
