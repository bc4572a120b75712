import { setTimeout as delay } from 'node:timers/promises'
import { createRandom, type Random } from '../fuzz/random.ts'
import type { Owner } from '../helpers/owner.ts'
import { ask, createBook, makeLoad, WHICH, type Name } from './actors.ts'
import { forget, PLACE_FAULTS, STORE_FAULTS, type Scene } from './faults.ts'
import { entriesOf, findViolations } from './ledger.ts'
import { overMs } from './records.ts'
import type { Keeping } from './store.ts'
import { openWorld, type Place } from './world.ts'

interface Order {
  /** Where the compiled service is. */
  directory: string
  seed: number
  /** Of trouble. The start, and the end of all that is kept, come on top. */
  seconds: number
  keeping: Keeping
  hasOwnClock: boolean
  isForgetting: boolean
  /** How often the store is killed in a row, at most. */
  burst: number
}

/** A history of revocations, and what was wrong with it. All that is started ends with its owner. */
export async function runHistory (t: Owner, order: Order) {
  const { seed, seconds } = order
  const world = await openWorld(t, order)
  const book = createBook(world)
  const scene: Scene = { book, random: createRandom(seed, 1), burst: order.burst, troubles: [], pauses: [] }
  const faults = new Map<string, number>()
  const endMs = Date.now() + seconds * 1000
  const isOver = () => Date.now() > endMs

  async function makeTrouble (all: typeof STORE_FAULTS, random: Random, longestPauseMs: number) {
    const own = { ...scene, random }
    const possible = all.filter(({ needs }) => needs?.(own) ?? true)
    for (let number = 0; ; number++) {
      await delay(random.below(longestPauseMs))
      if (isOver()) return
      // Each once, then any, and the first of them more often.
      const fault = possible[number] ?? (random.oneIn(2) ? possible[0]! : random.among(possible))
      faults.set(fault.name, (faults.get(fault.name) ?? 0) + 1)
      await fault.run(own)
    }
  }
  async function askAll (names: readonly Name[], places: readonly Place[]) {
    await Promise.all(places.map(async place => {
      for (const name of names.filter(({ issuer }) => place.kind.issuers.includes(issuer))) {
        for (const which of WHICH[name.kind]) await ask(book, name, place, which)
      }
    }))
  }

  await Promise.all([
    makeLoad(book, createRandom(seed, 2), isOver),
    makeTrouble(STORE_FAULTS, createRandom(seed, 3), 600),
    makeTrouble(PLACE_FAULTS, createRandom(seed, 4), 600)
  ])
  if (order.isForgetting) {
    await forget(scene, 13_000)
    await makeLoad(book, createRandom(seed, 5), () => Date.now() > endMs + 20_000)
  }
  // What was acknowledged holds at every instance, also at those that start now.
  await delay(1200)
  for (const name of ['a9', 'b9']) await (await world.join(name)).start()
  const present = world.places.filter(({ process }) => process)
  const young = book.names.filter(name => overMs(name.words, world.lifeOf(name.issuer)) > Date.now()).slice(-200)
  await askAll(young, present)
  const violations = await findHeld(scene, present)
  // Nothing is kept that is over.
  const lastMs = Math.max(
    book.noiseUntilMs + 2000,
    ...book.names.map(name => overMs(name.words, world.lifeOf(name.issuer))).filter(Number.isFinite)
  )
  await delay(Math.max(0, Math.min(lastMs - Date.now(), 40_000)))
  await askAll(book.names.slice(-200), present)
  violations.push(...await findHeld(scene, present))

  const { calls, names } = book
  const counts: Record<string, number> = { names: names.length, noise: book.noise }
  for (const { outcome } of calls) counts[outcome] = (counts[outcome] ?? 0) + 1
  for (const { words } of names) {
    for (const { says, outcome } of words) counts[`${says} ${outcome}`] = (counts[`${says} ${outcome}`] ?? 0) + 1
  }
  const [slowest] = [...scene.troubles].sort((a, b) => b.span[1] - b.span[0] - (a.span[1] - a.span[0]))
  return {
    violations: [...findViolations(scene), ...violations],
    kills: world.kills(),
    faults,
    counts,
    slowest: slowest ? `${slowest.fault}, ${slowest.span[1] - slowest.span[0]} ms` : 'none'
  }
}

/** Keys of the store beside the records: the instances, and the state of all. */
const OTHER_KEYS = 40

/** One instance removes what is over from the store. For so long no other one does if it is killed. */
const LEASE_MS = 12_000

/** What instances and store hold that they must not, and the reverse. */
async function findHeld (scene: Scene, places: readonly Place[]) {
  const found: string[] = []
  const { command } = scene.book.world.store.server()
  async function findStored () {
    let stored = 0
    for (const key of (await command('KEYS', '*')).split(' ')) {
      if (await command('TYPE', key) === 'hash') stored += Number(await command('HLEN', key))
    }
    const most = entriesOf(scene, undefined, Date.now())[1] + OTHER_KEYS
    return stored > most ? `the store holds ${stored}, not at most ${most}` : undefined
  }
  for (const place of places) {
    const [least, most] = entriesOf(scene, place, Date.now())
    const text = await (await fetch(`${place.url}/metrics`)).text()
    const held = Number(/^holdfast_revocation_entries (\d+)$/m.exec(text)![1])
    if (held < least || held > most) found.push(`${place.name} holds ${held} entries, not ${least} to ${most}`)
  }
  const endMs = Date.now() + LEASE_MS
  let excess = await findStored()
  for (; excess && Date.now() < endMs; excess = await findStored()) await delay(200)
  if (excess) found.push(excess)
  return found
}
