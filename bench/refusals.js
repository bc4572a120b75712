import { measureBeside } from './beside.js'
import { keep, startHoldfast } from './holdfast.js'
import { warmUp } from './measure.js'
import { FORGED_ALGS } from './requests.js'

const ROUNDS = 5
const COUNT = 3_000
const COUNT_OF_SAME = 10_000 // of requests that are sent repeatedly, without signing
const COUNT_OF_CROWD = 500 // Some take 10 ms.
const QUICK = { rounds: 1, count: 300 }

/**
 * What it costs to refuse, for every kind of refusal, beside what it costs to accept the request that differs from it
 * in one thing, and what only Node spends on the same bytes. Each answer must have the status and the error that its
 * kind names.
 */
export const refusals = async bench => {
  const plain = await startHoldfast(bench, 'refusals')
  if (plain === null) return null
  const nonces = await startHoldfast(bench, 'refusals with nonces', { env: { DPOP_NONCE: 'required' } })
  // Those of security events have a service of their own (hostile-events.js).
  const all = (await bench.load.call('likes')).filter(({ of }) => of !== 'events')
  const ofCrowd = new Set(all.filter(({ of }) => of === 'crowd').map(({ name }) => name))
  const crowd = await startHoldfast(bench, 'refusals with many keys', {
    env: { IDP_ALGS: FORGED_ALGS.join(' '), IDP_KEYS_FILE: keep('keys.json', JSON.stringify(bench.provider.crowd)) }
  })
  const refused = all.filter(({ like }) => like !== undefined)
  const serverOf = name =>
    ofCrowd.has(name) ? crowd : name === 'dpop-nonce' || name.startsWith('nonce') ? nonces : plain

  const countOf = name => {
    if (bench.quick) return QUICK.count
    if (ofCrowd.has(name)) return COUNT_OF_CROWD
    return all.find(kind => kind.name === name).fresh ? COUNT : COUNT_OF_SAME
  }
  await warmUp(bench, plain, 'dpop', 'dpop', bench.plan.warmSeconds)
  await warmUp(bench, nonces, 'dpop-nonce', 'dpop-nonce', bench.plan.warmSeconds)
  const measured = await measureBeside(bench, refused, {
    serverOf,
    countOf,
    rounds: bench.quick ? QUICK.rounds : ROUNDS
  })
  return { refused: measured.map(one => ({ ...one, isTriedOften: ofCrowd.has(one.name) })) }
}
