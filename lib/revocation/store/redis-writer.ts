import type { RedisCall } from '../../guard/redis/redis-link.ts'
import type { Surroundings } from '../../base/surroundings.ts'
import type { RevocationEntry } from '../entry.ts'
import type { View } from '../view.ts'
import { modeOf } from './memory-store.ts'
import { partOf, recordOf, writeRecord, type Part } from './record.ts'
import type { Given, RedisCalls } from './redis-calls.ts'
import { LEAD, LEADER, LEAVE } from './scripts.ts'
import { UndecidedError, type RevocationStore } from './store.ts'

/** For so long senders wait. */
const PATIENCE_MS = 1000
const LEAD_MS = 10_000
/** Entries of one sender that are merged at once, and of all. */
const MAX_OF_SENDER = 100
const MAX_AT_ONCE = 500
/** Where more changes are kept, instances are behind, and writers slow down. */
const MANY_CHANGES = 5000
const PAUSE_MS = 20

interface WriterOptions {
  readonly call: RedisCall
  readonly calls: RedisCalls
  readonly view: View
  readonly surroundings: Pick<Surroundings, 'now' | 'after'>
  /** Whether this process knows all that stands. */
  readonly isCurrent: () => boolean
  readonly instance: string
}

interface Job {
  readonly sender: string
  readonly given: readonly Given[]
  isWaiting: boolean
  readonly done: () => void
}

/** What instances write to the store in Redis, by a connection of its own: the one of the reader waits for news. */
export function createRedisWriter ({ call, calls, view, surroundings, isCurrent, instance }: WriterOptions) {
  const { now, after } = surroundings
  /** What senders wait for. Each has its turn, so that one that sends much delays nobody else. */
  const bySender = new Map<string, Job[]>()
  let isBusy = false
  const tasks = new Set<string>()

  const pause = (ms: number): Promise<void> => new Promise(resolve => { after(ms, resolve) })

  /** What is said of a key, and as it is merged. */
  function readEntry (entry: RevocationEntry): readonly [said: Part, given: Given] {
    const record = recordOf(entry, { heard: Math.ceil(view.seconds()), life: view.lifeSeconds, now: now() })
    const undone = partOf(view.recordOf(entry.key), 'u')
    const mode = modeOf(entry)
    let [said] = record.parts as readonly [Part]
    if (undone && mode === 'undo') said = { ...said, at: Math.max(said.at, undone.at + 1) }
    // The store may have lost what was undone.
    const parts = undone && mode !== 'undo' ? [said, undone] : [said]
    return [said, [mode, entry.key, writeRecord({ ...record, parts })]]
  }

  function nextJobs (): Job[] {
    const jobs: Job[] = []
    let size = 0
    for (const [sender, waiting] of bySender) {
      let own = 0
      while (waiting.length > 0 && size < MAX_AT_ONCE && own < MAX_OF_SENDER) {
        const job = waiting.shift()!
        if (!job.isWaiting) continue
        jobs.push(job)
        size += job.given.length
        own += job.given.length
      }
      bySender.delete(sender)
      // Behind the others.
      if (waiting.length > 0) bySender.set(sender, waiting)
      if (size >= MAX_AT_ONCE) break
    }
    return jobs
  }

  async function work (): Promise<void> {
    if (isBusy) return
    isBusy = true
    while (bySender.size > 0) {
      const jobs = nextJobs()
      const length = await calls.merge(call, jobs.flatMap(({ given }) => given)).catch(() => undefined)
      if (length === undefined) for (const job of jobs) wait(job)
      else for (const job of jobs) job.done()
      if (length === undefined || length > MANY_CHANGES) await pause(PAUSE_MS)
    }
    isBusy = false
  }

  function wait (job: Job): void {
    const waiting = bySender.get(job.sender) ?? []
    waiting.push(job)
    bySender.set(job.sender, waiting)
  }

  return {
    /**
     * Resolves when the entries stand. While others may be restoring what was lost, that is not known: what they have
     * undone since would take these with it.
     */
    async append (entries: readonly RevocationEntry[]): Promise<void> {
      const end = { isOver: false }
      const cancel = after(PATIENCE_MS, () => { end.isOver = true })
      try {
        do {
          const read = entries.map(readEntry)
          const isWritten = await new Promise<boolean>(resolve => {
            const job: Job = {
              sender: entries[0]!.sender,
              given: read.map(([, given]) => given),
              isWaiting: true,
              done: () => resolve(true)
            }
            after(PATIENCE_MS, () => {
              job.isWaiting = false
              resolve(false)
            })
            wait(job)
            work()
          })
          if (!isWritten) break
          while (!isCurrent() && !end.isOver) await pause(PAUSE_MS)
          // As far as this process knows.
          const stands = read.every(([{ kind, at }, [, key]]) => (partOf(view.recordOf(key), kind)?.at ?? -1) >= at)
          if (isCurrent() && stands) return
        } while (!end.isOver)
      } finally {
        cancel()
      }
      throw new UndecidedError('the store of revocations cannot be written')
    },
    lead: (async task => {
      tasks.add(task)
      return await Promise.race([
        call('eval', LEAD, 1, LEADER + task, instance, LEAD_MS).catch(() => 0),
        pause(PATIENCE_MS)
      ]) === 1
    }) satisfies RevocationStore['lead'],
    /** Leaves its tasks to others. */
    leave () {
      for (const task of tasks) call('eval', LEAVE, 1, LEADER + task, instance).catch(() => {})
    }
  }
}
