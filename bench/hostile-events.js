import { measureBeside } from './beside.js'
import { OPERATOR_SCOPE, RECEIVER } from './event-tokens.js'
import { startHoldfast } from './holdfast.js'
import { warmUp } from './measure.js'

const ROUNDS = 5
const COUNT = 500 // Some take a millisecond.
const QUICK = { rounds: 1, count: 100 }

/**
 * The section that takes what `createEventKinds` makes. The keys of the transmitter are as many as a token is tried
 * against.
 */
const sectionFor = ({ issuer }) => ({
  transmitters: [{ issuer, audience: RECEIVER, delivery: 'push', tokenIssuers: [issuer] }],
  logout: [{ issuer, clientId: RECEIVER }],
  operators: { scope: OPERATOR_SCOPE }
})

/** What it costs to take a hostile security event, logout token or subject, beside an accepted one. */
export const hostileEvents = async bench => {
  const server = await startHoldfast(bench, 'hostile events', { config: { revocation: sectionFor(bench.provider) } })
  if (server === null) return null
  const kinds = (await bench.load.call('likes')).filter(({ of, like }) => of === 'events' && like !== undefined)
  await warmUp(bench, server, 'event RS256', 'event RS256', bench.plan.warmSeconds)
  const { rounds, count } = bench.quick ? QUICK : { rounds: ROUNDS, count: COUNT }
  return measureBeside(bench, kinds, { serverOf: () => server, countOf: () => count, rounds })
}
