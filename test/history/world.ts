import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { freePort } from '../helpers/free-port.ts'
import { spawnInstance } from '../helpers/instance.ts'
import { AUDIENCE, startIssuer, type Issuer } from '../helpers/issuer.ts'
import type { Owner } from '../helpers/owner.ts'
import { RECEIVER, startTransmitter, type Transmitter } from '../helpers/revocation-site.ts'
import type { Life, Span } from './records.ts'
import { startStore, type Keeping, type Store } from './store.ts'
import { temporaryFolder } from '../helpers/temporary-folder.ts'

/** Settings that services on one store may have differently. */
interface Kind {
  issuers: readonly number[]
  retentionSeconds: number
  toleranceSeconds: number
  staleSeconds: number
}

const KINDS: Record<string, Kind> = {
  a: { issuers: [0, 1], retentionSeconds: 6, toleranceSeconds: 1, staleSeconds: 3 },
  b: { issuers: [1, 2], retentionSeconds: 8, toleranceSeconds: 2, staleSeconds: 5 }
}
/** Of tokens. They may not live longer than the shortest retention. */
export const LIFE_SECONDS = 5
const ISSUERS = 3
const PATIENCE_MS = 180_000
/** One that is ready may have been asked just before. */
const SETTLES_MS = 500

/** A place where one process after the other serves. */
export interface Place {
  name: string
  kind: Kind
  url: string
  /** Undefined while none runs there. */
  process: ReturnType<typeof spawnInstance> | undefined
  /** How wrong its clock is. */
  wrongMs: number
  /** From readiness until the end, of each process. The last one may still run. */
  lives: Array<[readyMs: number, endMs: number]>
  /** When it was starting, or stopped. */
  absences: Array<{ span: Span, isStop: boolean }>
  start (): Promise<void>
  untilReady (): Promise<void>
  kill (): Promise<void>
  /** Stops it for so long. */
  pause (ms: number): Promise<void>
  /** Sets its clock wrong by so much. It outlives the process. */
  setClock (wrongMs: number): Promise<void>
}

export interface World {
  issuers: readonly Issuer[]
  /** Each speaks for one issuer. */
  transmitters: readonly Transmitter[]
  /** It may speak for an issuer that has no tokens here. */
  hostile: Transmitter
  /** It may speak for all issuers, and says much. */
  loud: Transmitter
  store: Store
  places: readonly Place[]
  lifeOf (issuer: number): Life
  /** Another instance of the same service. */
  join (name: string): Promise<Place>
  /** How often an instance was killed. */
  kills (): number
}

interface WorldParts {
  /** Where the compiled service is. */
  directory: string
  keeping: Keeping
  hasOwnClock: boolean
}

/** Two services with other settings on one store, two instances each. All ends with its owner. */
export async function openWorld (t: Owner, { directory, keeping, hasOwnClock }: WorldParts): Promise<World> {
  const folder = temporaryFolder(t, 'history')
  const store = await startStore(t, keeping, hasOwnClock)
  const issuers = await Promise.all(Array.from({ length: ISSUERS }, () => startIssuer(t)))
  const transmitters = await Promise.all(issuers.map(() => startTransmitter(t)))
  const [hostile, loud] = await Promise.all([startTransmitter(t), startTransmitter(t)])
  let kills = 0

  for (const [name, kind] of Object.entries(KINDS)) {
    const own = kind.issuers.map(number => issuers[number]!.url)
    const listed = (transmitter: Transmitter, tokenIssuers: readonly string[]) => ({
      issuer: transmitter.url,
      audience: RECEIVER,
      delivery: 'push',
      tokenIssuers
    })
    writeFileSync(
      join(folder, `${name}.json`),
      JSON.stringify({
        idp: {
          audience: AUDIENCE,
          issuers: own.map(issuer => ({ issuer })),
          clockToleranceSeconds: kind.toleranceSeconds
        },
        revocation: {
          operators: { scope: 'revoke' },
          transmitters: [
            ...kind.issuers.map(number => listed(transmitters[number]!, [issuers[number]!.url])),
            listed(hostile, ['https://elsewhere.example/']),
            listed(loud, own)
          ],
          store: `redis://127.0.0.1:${store.port}`,
          retentionSeconds: kind.retentionSeconds,
          staleSeconds: kind.staleSeconds
        }
      })
    )
  }

  async function open (name: string) {
    const kind = KINDS[name[0]!]!
    const port = await freePort()
    const clockFile = join(folder, `${name}.clock`)
    writeFileSync(clockFile, '0')
    const place: Place = {
      name,
      kind,
      url: `http://127.0.0.1:${port}`,
      process: undefined,
      wrongMs: 0,
      lives: [],
      absences: [],
      async start () {
        const startMs = Date.now()
        place.process = spawnInstance(t, directory, {
          PORT: String(port),
          CONFIG_FILE: join(folder, `${name[0]}.json`),
          LOG_LEVEL: 'warn',
          NODE_OPTIONS: `--require ${join(import.meta.dirname, 'clock.cjs')}`,
          CLOCK_FILE: clockFile
        })
        await place.untilReady()
        place.absences.push({ span: [startMs, Date.now() + SETTLES_MS], isStop: false })
        place.lives.push([Date.now(), Infinity])
      },
      async untilReady () {
        const { process } = place
        if (!process) return
        const endMs = Date.now() + PATIENCE_MS
        while (place.process === process && !await isReady(place.url)) {
          const { exitCode, signalCode } = process.child
          // It may have been killed while it was asked.
          if (place.process !== process) return
          if (Date.now() > endMs || (exitCode ?? signalCode) !== null) {
            const said = await fetch(`${place.url}/health/ready`).then(answer => answer.text(), String)
            throw new Error(`${name} is not ready: ${exitCode}, ${said}, ${process.output().slice(-2000)}`)
          }
          await delay(50)
        }
      },
      async kill () {
        const { process, lives } = place
        place.process = undefined
        kills++
        process!.child.kill('SIGKILL')
        lives.at(-1)![1] = Date.now()
        await process!.ended
      },
      async pause (ms) {
        const startMs = Date.now()
        place.process?.child.kill('SIGSTOP')
        await delay(ms)
        place.process?.child.kill('SIGCONT')
        place.absences.push({ span: [startMs, Date.now()], isStop: true })
      },
      async setClock (wrongMs) {
        if (wrongMs !== 0) place.wrongMs = wrongMs
        writeFileSync(clockFile, String(wrongMs))
        place.process?.child.kill('SIGWINCH')
        await delay(100)
        place.wrongMs = wrongMs
      }
    }
    return place
  }

  const places = await Promise.all(['a1', 'a2', 'b1', 'b2'].map(open))
  await Promise.all(places.map(place => place.start()))
  const added = [...places]
  const lives = Array.from({ length: ISSUERS }, (_, number): Life => {
    const kept = Object.values(KINDS).filter(({ issuers }) => issuers.includes(number))
      .map(({ retentionSeconds, toleranceSeconds }) => [retentionSeconds, toleranceSeconds] as const)
    const retention = Math.max(...kept.map(([seconds]) => seconds))
    const tolerances = kept.map(([, seconds]) => seconds)
    return [(retention + 2 * Math.min(...tolerances)) * 1000, (retention + 2 * Math.max(...tolerances)) * 1000]
  })
  return {
    issuers,
    transmitters,
    hostile,
    loud,
    store,
    places: added,
    lifeOf: number => lives[number]!,
    async join (name) {
      const place = await open(name)
      added.push(place)
      return place
    },
    kills: () => kills + store.kills
  }
}

const isReady = (url: string) =>
  fetch(`${url}/health/ready`, { signal: AbortSignal.timeout(2000) }).then(async answer => {
    await answer.arrayBuffer()
    return answer.ok
  }, () => false)
