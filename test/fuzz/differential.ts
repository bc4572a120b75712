import { factsOf, findDifference, findLost, recordOf } from './differences.ts'
import { MUTATIONS, type Mutation } from './mutations.ts'
import { openOurs, type Ours } from './ours.ts'
import { goodParts, make, type Made } from './parts.ts'
import { createRandom } from './random.ts'
import { askTheirs, freezeClock, type Theirs } from './theirs.ts'

export interface Case {
  mutations: readonly string[]
  made: Made
  ours: Ours
  theirs: Theirs
  /** The difference that explains it, if the two differ. */
  difference?: string
  /** A copy of a request that has passed. Only the guard judges it. */
  isCopy?: boolean
  /** What nothing explains. */
  fault?: string
}

/**
 * Seconds for which a record is kept at least and at most: a proof may be 300 seconds old when it comes, or 30 seconds
 * ahead.
 */
const SHORTEST_RECORD = 1
const LONGEST_RECORD = 700
const START = Date.UTC(2026, 0, 1) / 1000

/** One change in most cases, so that none hides another. */
function chooseMutations (seed: number, number: number) {
  const random = createRandom(seed, number)
  const count = random.among([0, 1, 1, 1, 1, 1, 1, 2, 2, 3])
  return Array.from({ length: count }, () => random.among(MUTATIONS))
}

/** Both verifiers, and their requests. Each case follows from seed and number. */
export async function openDifferential (
  seed: number
): Promise<{
  run: (number: number) => Promise<Case[]>,
  explain: Awaited<ReturnType<typeof openOurs>>['explain'],
  close: () => Promise<void>
}> {
  const ours = await openOurs()
  const thaw = freezeClock()
  /** When each proof was accepted first: the record that the guard must have. */
  const used = new Map<string, number>()

  function makeCase (number: number, mutations: readonly Mutation[], jti: string) {
    const random = createRandom(seed + 1, number)
    // One second for each thousand cases, so that what is kept grows old.
    const now = START + Math.floor(number / 1000)
    ours.nonceAt(now)
    const parts = goodParts(random, now, jti)
    for (const mutation of mutations) mutation.apply(parts, random)
    return make(parts)
  }

  async function judge (made: Made, mutations: readonly Mutation[]): Promise<Case> {
    const known = factsOf(made, ours.nonceAt(made.wire.now), false)
    const record = recordOf(known)
    const { now } = made.wire
    const usedAt = used.get(record) ?? -Infinity
    const our = await ours.judge(made.wire)
    const their = await askTheirs(made.wire)
    const facts = { ...known, isUsed: now - usedAt <= LONGEST_RECORD, ours: our, theirs: their }
    // A proof that is seen again with a later time keeps its record for longer.
    if ((our === undefined && made.proof !== undefined) || (our === 'proof_replayed' && facts.isUsed)) {
      used.set(record, now)
    }
    const common = { mutations: mutations.map(({ name }) => name), made, ours: our, theirs: their }
    if (our === undefined && made.proof !== undefined && now - usedAt <= SHORTEST_RECORD) {
      return { ...common, fault: 'ours passes a proof again' }
    }
    const lost = findLost(facts)
    if (lost) return { ...common, fault: `ours passes, although ${lost.name} (${lost.by})` }
    if ((our === undefined) === (their === undefined)) return common
    const difference = findDifference(facts)
    return difference
      ? { ...common, difference: difference.name }
      : { ...common, fault: our === undefined ? 'ours passes, theirs does not' : 'theirs passes, ours does not' }
  }

  async function run (number: number) {
    const mutations = chooseMutations(seed, number)
    const first = await judge(makeCase(number, mutations, `${seed}-${number}`), mutations)
    const cases = [first]
    // If theirs would refuse each change by itself, each of them must be explained. Otherwise one could hide behind
    // another.
    if (first.difference && first.ours === undefined && mutations.length > 1) {
      for (const [at, mutation] of mutations.entries()) {
        cases.push(await judge(makeCase(number, [mutation], `${seed}-${number}-${at}`), [mutation]))
      }
    }
    if (first.ours === undefined && first.made.wire.rawHeaders.includes('DPoP')) {
      cases.push(await again(first, mutations))
    }
    return cases
  }

  /** A copy of a request that has passed must not pass, whatever theirs says: it keeps no record. */
  async function again ({ made }: Case, mutations: readonly Mutation[]) {
    const our = await ours.judge(made.wire)
    const common = {
      mutations: [...mutations.map(({ name }) => name), 'sent again'],
      made,
      ours: our,
      theirs: undefined,
      isCopy: true
    }
    return our === 'proof_replayed' ? common : { ...common, fault: `sent again: ${our ?? 'passes'}` }
  }

  return {
    run,
    explain: ours.explain,
    async close () {
      thaw()
      await ours.close()
    }
  }
}
