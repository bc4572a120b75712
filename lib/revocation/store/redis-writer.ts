import type { RedisCall } from '../../guard/redis/redis-link.ts'
import type { Surroundings } from '../../base/surroundings.ts'
import type { RevocationEntry } from '../entry.ts'
import type { View } from '../view.ts'
import { modeOf } from './memory-store.ts'
import { partOf, recordOf, writeRecord, type MergeMode, type Part, type RevocationRecord } from './record.ts'
import type { RedisCalls } from './redis-calls.ts'
import { LEAD, LEADER, LEAVE } from './scripts.ts'
import { UndecidedError } from './store.ts'

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
  readonly entries: readonly RevocationEntry[]
  /** Not once its sender has given up. */
  isWaiting: boolean
  done: () => void
}

/** What instances write to the store in Redis, by a connection of its own: the one of the reader waits for news. */
export function createRedisWriter ({ call, calls, view, surroundings, isCurrent, instance }: WriterOptions) {
  const { now, after } = surroundings
  /** What senders wait for. Each has its turn, so that one that sends much does not delay the others. */
  const bySender = new Map<string, Job[]>()
  let isBusy = false
  const tasks = new Set<string>()

  const pause = (ms: number): Promise<void> => new Promise(resolve => { after(ms, resolve) })

  function given (entry: RevocationEntry): readonly [MergeMode, string, RevocationRecord] {
    const heard = Math.ceil(view.seconds())
    const record = recordOf(entry, { heard, life: view.lifeSeconds, now: now() })
    const undone = partOf(view.recordOf(entry.key), 'u')
    const mode = modeOf(entry)
    if (!undone) return [mode, entry.key, record]
    const [part] = record.parts as readonly [Part]
    // The store may have lost what was undone.
    return [mode, entry.key, {
      ...record,
      parts: mode === 'undo'
        ? [{ ...part, at: Math.max(part.at, undone.at + 1) }]
        : [part, undone]
    }]
  }

  function nextJobs () {
    const jobs: Job[] = []
    let size = 0
    for (const [sender, waiting] of bySender) {
      let own = 0
      while (waiting.length > 0 && size < MAX_AT_ONCE && own < MAX_OF_SENDER) {
        const job = waiting.shift()!
        if (!job.isWaiting) continue
        jobs.push(job)
        size += job.entries.length
        own += job.entries.length
      }
      bySender.delete(sender)
      // Behind the others.
      if (waiting.length > 0) bySender.set(sender, waiting)
      if (size >= MAX_AT_ONCE) break
    }
    return jobs
  }

  async function work () {
    if (isBusy) return
    isBusy = true
    while (bySender.size > 0) {
      const jobs = nextJobs()
      const length = await calls.merge(
        call,
        jobs.flatMap(({ entries }) => entries.map(given)).map(([mode, key, record]) =>
          [mode, key, writeRecord(record)] as const
        )
      ).catch(() => undefined)
      jobs.forEach(length === undefined ? wait : ({ done }) => done())
      if (length === undefined || length > MANY_CHANGES) await pause(PAUSE_MS)
    }
    isBusy = false
  }

  function wait (job: Job) {
    const { sender } = job.entries[0]!
    const waiting = bySender.get(sender) ?? []
    waiting.push(job)
    bySender.set(sender, waiting)
  }

  /** Whether what was said of a key counts, as far as this process knows. */
  function stands ([, key, { parts: [said] }]: ReturnType<typeof given>): boolean {
    return view.recordOf(key)?.parts.some(({ kind, at }) => kind === said!.kind && at >= said!.at) === true
  }

  return {
    /**
     * Resolves when the entries stand. While others may be restoring what was lost, that is not known: what they have
     * undone since would take these with it.
     */
    async append (entries: readonly RevocationEntry[]) {
      const asked = entries.map(given)
      const job = { entries, isWaiting: true } as Job
      const cancel = after(PATIENCE_MS, () => {
        job.isWaiting = false
        job.done()
      })
      try {
        while (job.isWaiting) {
          await new Promise<void>(resolve => {
            job.done = resolve
            wait(job)
            work()
          })
          while (!isCurrent() && job.isWaiting) await pause(PAUSE_MS)
          if (job.isWaiting && isCurrent() && asked.every(stands)) return
        }
      } finally {
        cancel()
      }
      throw new UndecidedError('the store of revocations cannot be written')
    },
    async lead (task: string) {
      tasks.add(task)
      return await Promise.race([
        call('eval', LEAD, 1, LEADER + task, instance, LEAD_MS).catch(() => 0),
        pause(PATIENCE_MS)
      ]) === 1
    },
    /** Leaves its tasks to others. */
    leave () {
      for (const task of tasks) call('eval', LEAVE, 1, LEADER + task, instance).catch(() => {})
    }
  }
}
