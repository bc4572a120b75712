import { setTimeout as delay } from 'node:timers/promises'
import type { Random } from '../fuzz/random.ts'
import { ask, flood, makeName, operate, report, WHICH, type Book } from './actors.ts'
import type { Span } from './records.ts'
import type { Place } from './world.ts'

/** Trouble of the store, which may make every instance wait. */
export interface Trouble {
  fault: string
  /** Until every instance that ran was ready again. */
  span: Span
  /** When each of them was. */
  readyMs: ReadonlyMap<string, number>
  /** What was written in this time may be gone from the store. */
  lost: Span | undefined
}

export interface Scene {
  book: Book
  random: Random
  /** How often the store is killed in a row, at most. */
  burst: number
  troubles: Trouble[]
  /** Times in which no instance ran. */
  pauses: Span[]
}

interface Fault {
  name: string
  /** What the store must be like. */
  needs?: (scene: Scene) => boolean
  run (scene: Scene): Promise<void>
}

const SETTLES_MS = 700
/** Those that restore one after the other make all wait again. */
const AGAIN_MS = 1000
const ALL_LOST = (): Span => [0, Date.now()]

/** When each is ready. Those that start meanwhile have their own time. */
async function untilReady ({ book }: Scene) {
  const ready = new Map<string, number>()
  const running = book.world.places.filter(({ lives }) => lives.at(-1)?.[1] === Infinity)
  await Promise.all(running.map(async place => {
    await place.untilReady()
    ready.set(place.name, Date.now())
  }))
  return ready
}

/** Trouble of the store, and some more meanwhile. It lasts until every instance is ready again. */
async function trouble (scene: Scene, fault: string, work: () => Promise<Span | undefined>) {
  const start = Date.now()
  const at = scene.troubles.push({ fault, span: [start, Infinity], readyMs: new Map(), lost: undefined }) - 1
  const lost = await work()
  await delay(SETTLES_MS)
  const ready = await untilReady(scene)
  scene.troubles[at] = { fault, span: [start, Date.now() + AGAIN_MS], readyMs: ready, lost }
}

const running = ({ book }: Scene) => book.world.places.filter(({ process }) => process)
/** One of two of its service. */
const anyPlace = ({ book, random }: Scene) => random.among(book.world.places.slice(0, 4))

/** Something is said about a new name there, and nobody waits for the answer. */
function speak ({ book, random }: Scene, place: Place, times = 3) {
  for (let n = 0; n < times; n++) {
    const name = makeName(book, random)
    if (!place.kind.issuers.includes(name.issuer)) continue
    if (random.oneIn(3)) operate(book, name, place, false)
    else report(book, random, name, place, name.kind === 'session' ? 'ended' : 'blocked')
  }
}

/** An instance that starts, is asked about all names of late as soon as it listens, and is killed. */
async function late (scene: Scene, kind: string) {
  const { book } = scene
  const name = `${kind}3`
  const place = book.world.places.find(place => place.name === name) ?? await book.world.join(name)
  if (place.process) return
  const started = place.start()
  const { length } = place.lives
  for (let rest = 20; place.lives.length === length || rest > 0; rest -= place.lives.length - length) {
    for (const name of book.names.slice(-40).filter(({ issuer }) => place.kind.issuers.includes(issuer))) {
      if (await ask(book, name, place, WHICH[name.kind].at(-1)!) === 'none') break
    }
    await delay(20)
  }
  await started
  await place.kill()
}

/** Of the store: one at a time. */
export const STORE_FAULTS: readonly Fault[] = [
  {
    name: 'the store is killed while it writes, and while it gets all back',
    run: scene =>
      trouble(scene, 'killed', async () => {
        const { store } = scene.book.world
        for (let times = 1 + scene.random.below(scene.burst); times > 0; times--) {
          for (const place of running(scene)) speak(scene, place, 1)
          await delay(scene.random.below(6))
          await store.kill()
          await delay(scene.random.below(500))
        }
        return store.keeping === 'nothing' || store.keeping === 'replica' ? ALL_LOST() : undefined
      })
  },
  {
    name: 'the store is emptied',
    run: scene =>
      trouble(scene, 'emptied', async () => {
        await scene.book.world.store.server().command('FLUSHALL')
        return ALL_LOST()
      })
  },
  {
    name: 'the machine of the store dies with the last second',
    needs: ({ book }) => book.world.store.keeping === 'everysec',
    run: scene =>
      trouble(scene, 'machine died', async () => {
        await scene.book.world.store.killLosing()
        return [Date.now() - 1500, Date.now()]
      })
  },
  {
    name: 'the store is restored from a copy',
    needs: ({ book }) => book.world.store.keeping === 'nothing',
    run: scene =>
      trouble(scene, 'restored from a copy', async () => {
        const { store } = scene.book.world
        await store.copy()
        const copiedMs = Date.now()
        await delay(scene.random.below(4000))
        await store.restoreCopy()
        return [copiedMs, Date.now()]
      })
  },
  {
    name: 'the replica takes over without the last second',
    needs: ({ book }) => book.world.store.keeping === 'replica',
    run: scene =>
      trouble(scene, 'promoted', async () => {
        const startMs = Date.now()
        await scene.book.world.store.promote(scene.random.below(1000))
        return [startMs - 1000, Date.now()]
      })
  },
  {
    name: 'the store hangs',
    run: scene =>
      trouble(scene, 'hangs', async () => {
        const server = scene.book.world.store.server()
        server.signal('SIGSTOP')
        await delay(300 + scene.random.below(1700))
        server.signal('SIGCONT')
        return undefined
      })
  },
  {
    name: 'all connections are cut',
    run: scene =>
      trouble(scene, 'cut', async () => {
        await scene.book.world.store.server().command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
        return undefined
      })
  },
  {
    name: 'one that restores is stopped, and another one starts',
    async run (scene) {
      const { store } = scene.book.world
      const stopped = anyPlace(scene)
      speak(scene, stopped)
      await delay(scene.random.below(300))
      let started: Promise<void> | undefined
      await trouble(scene, 'emptied', async () => {
        await store.server().command('FLUSHALL')
        const lost = ALL_LOST()
        started = late(scene, stopped.name[0]!)
        await delay(scene.random.below(200))
        await stopped.pause(1200 + scene.random.below(300))
        return lost
      })
      await started
    }
  },
  {
    name: 'the clock of the store leaps, and is set right',
    needs: ({ book }) => book.world.store.hasOwnClock,
    async run (scene) {
      const { store } = scene.book.world
      store.setClock(scene.random.among([3600, -3600, 2 * 86_400, -2 * 86_400]))
      for (const place of running(scene)) speak(scene, place)
      await delay(500 + scene.random.below(1500))
      if (scene.random.oneIn(3)) {
        await trouble(scene, 'emptied', async () => {
          await store.server().command('FLUSHALL')
          return ALL_LOST()
        })
      }
      store.setClock(0)
    }
  },
  {
    name: 'many names come, and the same ones again and again',
    async run (scene) {
      const { book, random } = scene
      const place = random.among(running(scene))
      const { loud, transmitters } = book.world
      await flood(book, place, 20 + random.below(60), random.oneIn(2), random.among([loud, transmitters[1]!]))
    }
  }
]

/** Of instances: one at a time, beside the others. */
export const PLACE_FAULTS: readonly Fault[] = [
  {
    name: 'an instance is killed while it stores, and starts anew',
    async run (scene) {
      const place = anyPlace(scene)
      speak(scene, place)
      await delay(scene.random.below(6))
      await place.kill()
      await delay(scene.random.below(300))
      await place.start()
    }
  },
  { name: 'another instance starts, and is killed', run: scene => late(scene, scene.random.among(['a', 'b'])) },
  {
    name: 'an instance hangs',
    run: scene => anyPlace(scene).pause(300 + scene.random.below(1300))
  },
  {
    name: 'the clock of an instance leaps, and is set right',
    async run (scene) {
      const place = anyPlace(scene)
      await place.setClock(scene.random.among([600, -600, 3600, -3600, 2 * 86_400, -2 * 86_400]) * 1000)
      speak(scene, place, 6)
      await delay(300 + scene.random.below(1500))
      if (scene.random.oneIn(4)) {
        await place.kill()
        await place.start()
      }
      await place.setClock(0)
    }
  }
]

/** All instances end, and the store is emptied. What was said before that is gone, and what is said later holds. */
export async function forget (scene: Scene, pauseMs: number) {
  await trouble(scene, 'all ended', async () => {
    const startMs = Date.now()
    const places = running(scene)
    await Promise.all(places.map(place => place.kill()))
    await scene.book.world.store.server().command('FLUSHALL')
    const lost = ALL_LOST()
    await delay(pauseMs)
    await Promise.all(places.map(place => place.start()))
    scene.pauses.push([startMs, Date.now()])
    return lost
  })
}
