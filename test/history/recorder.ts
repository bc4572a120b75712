import { hash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { ReplayStore } from '../../lib/guard/replay/replay-store.ts'
import type { Random } from '../fuzz/random.ts'
import type { Operation } from './model.ts'

/** Writes down the calls of stores, and their answers. */
export interface Recorder {
  operations: Operation[]
  claim (store: ReplayStore, id: string, expiresAt: number): Promise<void>
  /** From when to when records may have been lost. */
  lose (start: number, end: number): void
}

export const nowSeconds = (): number => Date.now() / 1000

export function createRecorder (now = nowSeconds): Recorder {
  const operations: Operation[] = []
  return {
    operations,
    claim: (store, id, expiresAt) =>
      new Promise(resolve => {
        const start = now()
        store.record(hash('sha256', id, 'binary'), 'jkt', expiresAt, (refusal, first) => {
          operations.push({
            kind: 'claim',
            id,
            outcome: refusal ? 'unknown' : first ? 'first' : 'seen',
            start,
            end: now(),
            expiresAt
          })
          resolve()
        })
      }),
    lose (start, end) {
      operations.push({ kind: 'loss', start, end })
    }
  }
}

interface Load {
  recorder: Recorder
  random: Random
  /** The instances that run now: one that has crashed is replaced in this list. */
  stores: readonly ReplayStore[]
  isOver: () => boolean
  lifeSeconds: number
}

/**
 * Claims of the same ids on all instances at once, and again a little later, as an attacker does who has captured a
 * request.
 */
export async function claimAll ({ recorder, random, stores, isOver, lifeSeconds }: Load) {
  const pending: Array<Promise<void>> = []
  for (let number = 0; !isOver(); number++) {
    const id = `id ${number}`
    const expiresAt = nowSeconds() + lifeSeconds
    const burst = Array.from({ length: 2 + random.below(4) }, () => random.among(stores))
    // Nobody waits for the copies that come later.
    const copies = Array.from({ length: 1 + random.below(3) }, async () => {
      await delay(random.below(1500))
      await recorder.claim(random.among(stores), id, expiresAt)
    })
    const claims = burst.map(store => recorder.claim(store, id, expiresAt))
    pending.push(...copies, ...claims)
    await delay(1 + random.below(4))
  }
  await Promise.all(pending)
}
