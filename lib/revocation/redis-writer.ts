import type { RedisCall } from '../redis/redis-link.ts'
import type { Surroundings } from '../surroundings.ts'
import { UndecidedError } from './log.ts'
import type { RevocationLog } from './log.ts'
import type { LogClock } from './log-clock.ts'
import { START } from './log-place.ts'
import { writeEntry } from './redis-entries.ts'
import { APPEND, LEAD, LEADER, LOG } from './redis-scripts.ts'

/** For so long senders wait. */
const PATIENCE_MS = 1000
const LEAD_MS = 10_000

export interface LogWriterOptions {
  readonly call: RedisCall
  readonly clock: LogClock
  readonly after: Surroundings['after']
  /** A text that no other instance has. */
  readonly instance: string
}

/** What instances write to the log in Redis, by a connection of its own: the one of the reader waits for news. */
export function createLogWriter ({ call, clock, after, instance }: LogWriterOptions) {
  /** Senders that wait until this process has read what they have written, by the last text of it. */
  const written = new Map<string, () => void>()

  /** Undefined if there is none in time. */
  function inTime<Value> (outcome: Promise<Value>): Promise<Value | undefined> {
    const end = new Promise<undefined>(resolve => {
      after(PATIENCE_MS, () => resolve(undefined))
    })
    return Promise.race([outcome.catch(() => undefined), end])
  }

  const append: RevocationLog['append'] = async entries => {
    const texts = entries.map(entry => writeEntry(entry, clock.nowMs()))
    const last = texts.at(-1)!
    // Whatever becomes of the log meanwhile: what this process has read, it restores.
    const isRead = new Promise<true>(resolve => {
      // Others may have written the same within the millisecond.
      const before = written.get(last)
      written.set(last, () => {
        before?.()
        resolve(true)
      })
    })
    if (await inTime(call('eval', APPEND, 1, LOG, ...texts).then(() => isRead))) return
    written.delete(last)
    throw new UndecidedError('the log of revocations cannot be written')
  }

  return {
    append,
    /** The id of the last entry of the log. Undefined without an answer in time. */
    async lastId (): Promise<string | undefined> {
      const rows = await inTime(call('xrevrange', LOG, '+', '-', 'COUNT', 1) as Promise<ReadonlyArray<[id: string]>>)
      return rows && (rows[0]?.[0] ?? START)
    },
    async lead (task: string): Promise<boolean> {
      return await inTime(call('eval', LEAD, 1, LEADER + task, instance, LEAD_MS)) === 1
    },
    /** To be called for each text that was read. */
    took (text: string): void {
      // To look up a text, all of it is hashed: of a million entries at start nobody waits for one.
      if (written.size === 0) return
      written.get(text)?.()
      written.delete(text)
    }
  }
}
