import { setTimeout as delay } from 'node:timers/promises'
import { createRandom, type Random } from '../../../test/fuzz/random.ts'
import type { Owner } from '../../../test/helpers/owner.ts'
import { gather, startLoad } from './actors.ts'
import { INNER_FAULTS, OUTER_FAULTS, type Fault } from './faults.ts'
import { sumUp, type Window } from './ledger.ts'
import { plan } from './plan.ts'
import { rotateKeys } from './rotation.ts'
import { nowMs, openSite, type Site } from './site.ts'
import { findGrown, readVitals } from './vitals.ts'

interface Order {
  /** Where the compiled service is. */
  directory: string
  seed: number
  /** Of trouble. Start, warm-up and calm come on top. */
  seconds: number
}

const AT_ONCE = 12
const WARM_UP_MS = 5000
/**
 * No fault touches it, so every good request must be accepted. Refusals of opaque tokens are kept for 5 seconds, calls
 * to a provider that hung too.
 */
const CALM_MS = 5000
const SETTLES_MS = 1000

/** An hour of trouble in a short time. All that is started ends with its owner. */
export async function runSite (t: Owner, { directory, seed, seconds }: Order) {
  const site = await openSite(t, directory)
  const crowd = await gather(site, createRandom(seed, 1))
  const faults = new Map<string, number>()
  const windows: Window[] = []
  const violations: string[] = []
  const load = startLoad(crowd, AT_ONCE)
  await delay(WARM_UP_MS)
  const before = await takeVitals(site)

  const startMs = nowMs()
  const goesOn = () => nowMs() < startMs + seconds * 1000
  async function makeTrouble (from: readonly Fault[], random: Random) {
    for (const step of plan(from, random)) {
      await delay(step.pauseMs)
      if (!goesOn()) return
      const { fault } = step
      faults.set(fault.name, (faults.get(fault.name) ?? 0) + 1)
      const window = { fault: fault.name, part: fault.part, excuses: fault.excuses, startMs: nowMs() }
      const cure = await fault.begin(site, step)
      await delay(step.lastsMs)
      await cure()
      await delay(fault.settlesMs ?? SETTLES_MS)
      windows.push({ ...window, endMs: nowMs() })
    }
  }
  const [, , rotations] = await Promise.all([
    makeTrouble(INNER_FAULTS, createRandom(seed, 2)),
    makeTrouble(OUTER_FAULTS, createRandom(seed, 3)),
    rotateKeys(site, goesOn, violation => {
      violations.push(violation)
    })
  ])
  await delay(CALM_MS)
  await load.stop()
  const after = await takeVitals(site)

  const sums = sumUp({
    entries: load.entries,
    windows: [...windows, ...site.windows],
    accepted: site.accepted(),
    arrived: site.arrived
  })
  const vitals = site.members.map(({ name }, n) => ({ name, before: before[n]!, after: after[n]! }))
  const grown = vitals.flatMap(({ name, before, after }) => findGrown(name, before, after))
  return {
    ...sums,
    rotations,
    faults,
    vitals,
    violations: [...sums.violations, ...violations, ...site.deaths, ...grown]
  }
}

const takeVitals = ({ members }: Site) =>
  Promise.all(members.map(({ socketPath, instance }) => readVitals(socketPath, instance.pid)))
