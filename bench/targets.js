/**
 * What a request may cost, as ratios inside one run, so that they hold on any machine. Each target says what it
 * needs from the results and is left out where that was not measured.
 */
const row = (results, id) => results.compare?.find(one => one.id === id)
const least = (results, scheme, figure) => {
  const peers = results.compare?.filter(one => one.peer && one.scheme === scheme) ?? []
  return peers.length === 0 ? undefined : Math.min(...peers.map(one => one[figure]))
}
const ratio = (above, below) => above === undefined || below === undefined ? undefined : above / below
const load = (results, id) => results.mixed?.loads.find(one => one.id === id)
const growthOf = (results, id) => results.growth?.rows.findLast(one => one.id === id)?.ratio

const gateRow = (results, id) => results.gate?.rows.find(one => one.id === id)?.cpuUs
const less = (above, below) => above === undefined || below === undefined ? undefined : above - below
const revocationRow = (results, id) => results.revocation?.rows.find(one => one.id === id)?.cpuUs

const TARGETS = [
  [
    'Bearer with 0 cutoffs, CPU against no revocation',
    'most',
    1.02,
    r => ratio(revocationRow(r, 'revocation-0'), revocationRow(r, 'revocation-off'))
  ],
  [
    'Bearer with 100,000 cutoffs, CPU against no revocation',
    'most',
    1.02,
    r => ratio(revocationRow(r, 'revocation-100000'), revocationRow(r, 'revocation-off'))
  ],
  // Those that are accepted come from a sender with a key of its own. What is as small as the accepted one counts as a
  // whole. The bytes of what is larger are Node's.
  [
    'start with 1,000,000 cutoffs and as many blocks, s',
    'most',
    10,
    r => r.revocation?.size && r.revocation.size.startMs / 1000
  ],
  [
    'the longest time without a good answer after a lost connection, s',
    'most',
    1,
    r => r.revocation?.size && r.revocation.size.reconnect.gapMs / 1000
  ],
  [
    'an emptied Redis has all again, s',
    'most',
    30,
    r => r.revocation?.size && r.revocation.size.flush.restoredMs / 1000
  ],
  [
    'after that, until the next good answer, s',
    'most',
    1.6,
    r => r.revocation?.size && (r.revocation.size.flush.gapMs - r.revocation.size.flush.restoredMs) / 1000
  ],
  [
    'the dearest refused security event, CPU against an accepted one',
    'most',
    5,
    r =>
      r.revocation?.hostile &&
      Math.max(
        ...r.revocation.hostile.filter(one => one.status >= 400).map(one => one.large ? one.beyondBytes : one.ratio)
      )
  ],
  [
    'Bearer, CPU against bare Fastify',
    'most',
    1.2,
    r => ratio(row(r, 'holdfast-bearer')?.cpuUs, row(r, 'bare-bearer')?.cpuUs)
  ],
  [
    'DPoP, CPU against the floor',
    'most',
    1.12,
    r => ratio(row(r, 'holdfast-dpop')?.cpuUs, row(r, 'floor-dpop')?.cpuUs)
  ],
  [
    'DPoP, main thread against the floor',
    'most',
    1.2,
    r => ratio(row(r, 'holdfast-dpop')?.mainUs, row(r, 'floor-dpop')?.mainUs)
  ],
  [
    'DPoP with Redis, main thread against the floor',
    'most',
    1.4,
    r => ratio(row(r, 'holdfast-redis')?.mainUs, row(r, 'floor-dpop')?.mainUs)
  ],
  [
    'Bearer, CPU of the best peer against Holdfast',
    'least',
    3.5,
    r => ratio(least(r, 'bearer', 'cpuUs'), row(r, 'holdfast-bearer')?.cpuUs)
  ],
  [
    'DPoP, CPU of the best peer against Holdfast',
    'least',
    3.7,
    r => ratio(least(r, 'dpop', 'cpuUs'), row(r, 'holdfast-dpop')?.cpuUs)
  ],
  [
    'DPoP, main thread of the best peer against Holdfast',
    'least',
    7,
    r => ratio(least(r, 'dpop', 'mainUs'), row(r, 'holdfast-dpop')?.mainUs)
  ],
  [
    'the gate, Bearer, CPU against bare @fastify/http-proxy',
    'most',
    1.25,
    r => ratio(gateRow(r, 'gate-bearer'), gateRow(r, 'proxy-bare'))
  ],
  [
    'the gate, CPU that DPoP adds to Bearer, against what it adds to the bare route in the floor',
    'most',
    1.25,
    r =>
      ratio(
        less(gateRow(r, 'gate-dpop'), gateRow(r, 'gate-bearer')),
        less(row(r, 'floor-dpop')?.cpuUs, row(r, 'bare-bearer')?.cpuUs)
      )
  ],
  [
    'the gate at half load, ms that its p99 is above that of bare @fastify/http-proxy',
    'most',
    1,
    r => less(r.gate?.halfLoad?.gateP99Ms, r.gate?.halfLoad?.proxyP99Ms)
  ],
  [
    'p99 of /api/public beside DPoP at 70 %, against as many public requests',
    'most',
    2,
    r => ratio(load(r, 'dpop')?.p99Ms, load(r, 'public, as many requests')?.p99Ms)
  ],
  [
    'the dearest refusal against what it would cost to accept',
    'most',
    1,
    r =>
      r.refusals && Math.max(...r.refusals.refused.filter(one => !one.large && !one.isTriedOften).map(one => one.ratio))
  ],
  [
    'the dearest refusal of any size, beyond what Node spends on its bytes, against accepting',
    'most',
    5,
    r =>
      r.refusals?.refused[0].beyondBytes === undefined
        ? undefined
        : Math.max(...r.refusals.refused.map(one => one.beyondBytes))
  ],
  ['CPU with 1,000,000 remembered jtis against 10', 'most', 1.05, r => growthOf(r, 'remembered jtis')],
  ['CPU with 100,000 access tokens seen against 10', 'most', 1.05, r => growthOf(r, 'access tokens seen')],
  ['CPU with 100,000 client keys seen against 10', 'most', 1.05, r => growthOf(r, 'client keys seen')],
  ['bytes for each of 1,000,000 remembered jtis', 'most', 100, r => r.growth?.store?.bytesEach],
  ['longest pause while 1,000,000 remembered jtis are freed, ms', 'most', 5, r => r.growth?.store?.freeingMs],
  ['ready to answer, ms after the start of the process', 'most', 400, r => r.start?.holdfastMs]
]

export const judge = results =>
  TARGETS
    .map(([name, bound, limit, of]) => ({ name, bound, limit, value: of(results) ?? undefined }))
    .filter(({ value }) => value !== undefined)
    .map(target => ({
      ...target,
      met: target.bound === 'most' ? target.value <= target.limit : target.value >= target.limit
    }))
