import { setTimeout as sleep } from 'node:timers/promises'

/** Milliseconds between two requests. They do not wait for each other. */
const EVERY_MS = 20

/** Asks all the time. `gapMs`: the longest time between two good answers while `work`, and `ms` after it, last. */
export const watchAnswers = async (ask, work, ms) => {
  const startMs = performance.now()
  let [last, gapMs, bad] = [startMs, 0, 0]
  const state = { isDone: false }
  const take = isGood => {
    if (!isGood) return bad++
    const at = performance.now()
    gapMs = Math.max(gapMs, at - last)
    last = at
  }
  const worked = (async () => {
    await work()
    await sleep(ms)
    state.isDone = true
  })()
  while (!state.isDone) {
    ask().then(status => take(status === 200), () => take(false))
    await sleep(EVERY_MS)
  }
  await worked
  return { gapMs: Math.max(gapMs, performance.now() - last), bad }
}
