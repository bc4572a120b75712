import { keep, startHoldfast } from './holdfast.js'
import { awaitQuiet, median, round, warmUp } from './measure.js'
import { contender, startServer } from './processes.js'
import { FORGED_ALGS } from './requests.js'

const ROUNDS = 5
const COUNT = 3_000
const COUNT_OF_SAME = 10_000 // of requests that may be sent again, which nobody has to sign
const COUNT_OF_CROWD = 500 // Some take 10 ms.
const QUICK = { rounds: 1, count: 300 }

/**
 * What it costs to refuse, for every kind of refusal, beside what it costs to accept the request that differs from it
 * in one thing, and what Node alone spends on the same bytes. Each answer must have the status and the error that its kind names.
 */
export const refusals = async (bench) => {
  const plain = await startHoldfast(bench, 'refusals')
  if (plain === null) return null
  const nonces = await startHoldfast(bench, 'refusals with nonces', { env: { DPOP_NONCE: 'required' } })
  const all = await bench.load.call('likes')
  const ofCrowd = new Set(all.filter(({ of }) => of === 'crowd').map(({ name }) => name))
  const crowd = await startHoldfast(bench, 'refusals with many keys', { env: { IDP_ALGS: FORGED_ALGS.join(' '), IDP_KEYS_FILE: keep('keys.json', JSON.stringify(bench.provider.crowd)) } })
  const refused = all.filter(({ like }) => like !== undefined)
  const names = [...new Set(refused.map(({ like }) => like)), ...refused.map(({ name }) => name)]
  const serverOf = (name) => ofCrowd.has(name) ? crowd : name === 'dpop-nonce' || name.startsWith('nonce') ? nonces : plain

  const countOf = (name) => {
    if (bench.quick) return QUICK.count
    if (ofCrowd.has(name)) return COUNT_OF_CROWD
    return all.find(kind => kind.name === name).fresh ? COUNT : COUNT_OF_SAME
  }
  const node = await startServer(contender('node'))
  bench.cleanUp(node.stop)
  const costOfBytes = (name) => round(bench, node, `${name}, bare node:http`, [{ name, count: countOf(name), status: 200, anyError: true }])
  const cost = (name) => round(bench, serverOf(name), name, [{ name, count: countOf(name) }])

  const costs = new Map(refused.map(({ name }) => [name, []]))
  await warmUp(bench, plain, 'dpop', 'dpop', bench.plan.warmSeconds)
  await warmUp(bench, nonces, 'dpop-nonce', 'dpop-nonce', bench.plan.warmSeconds)
  // Each kind once, unmeasured, so that no path is compiled while it is measured.
  for (const name of names) await cost(name)
  for (const { name } of refused) await costOfBytes(name)
  for (let i = 0; i < (bench.quick ? QUICK.rounds : ROUNDS); i++) {
    await awaitQuiet(bench)
    // One right after the other: the speed of the machine drifts.
    for (const { name, like } of refused) costs.get(name).push({ accepted: await cost(like), refused: await cost(name), bytes: await costOfBytes(name) })
  }
  return {
    refused: refused.map(({ name, like, status, large = false, of: at }) => {
      const of = (figure) => median(costs.get(name).map(figure))
      return {
        name,
        like,
        status,
        large,
        isTriedOften: at === 'crowd',
        cpuUs: of(one => one.refused.cpuUs),
        mainUs: of(one => one.refused.mainUs),
        acceptedUs: of(one => one.accepted.cpuUs),
        bytesUs: of(one => one.bytes.cpuUs),
        ratio: of(one => one.refused.cpuUs / one.accepted.cpuUs),
        beyondBytes: of(one => (one.refused.cpuUs - one.bytes.cpuUs) / one.accepted.cpuUs)
      }
    })
  }
}
