import { setTimeout as delay } from 'node:timers/promises'

const STEP_MS = 5
const MAX_STEPS = 20_000

/** Waits until something is true, and fails with its name after some 100 s. */
export async function until (what: string, isTrue: () => boolean | Promise<boolean>) {
  for (let left = MAX_STEPS; !await isTrue(); left--) {
    if (left === 0) throw new Error(`never happened: ${what}`)
    await delay(STEP_MS)
  }
}
