import { executionAsyncResource } from 'node:async_hooks'
import { availableParallelism } from 'node:os'
import { nextTick } from 'node:process'
import { setFlagsFromString } from 'node:v8'

const kept: object[] = []

/**
 * Prepares V8 for a service whose requests wait, here for the thread pool. It is called once, before the app is loaded:
 * no flag changes while requests are answered. lab/reports/performance.md has the figures of each step.
 */
export function tuneEngine (cores = availableParallelism()): void {
  // If objects often outlive a small collection, V8 starts to make them in old space. There each of them keeps a whole
  // request alive until the next full collection.
  setFlagsFromString('--no-allocation-site-pretenuring')
  // Node makes such an object for each process.nextTick, about eight for each request. If a full collection finds none,
  // V8 drops their shape and makes them the slow way from then on.
  nextTick(() => kept.push(executionAsyncResource()))
  // On a single core the threads that mark live objects would take their time from the requests.
  if (cores === 1) setFlagsFromString('--no-concurrent-marking')
}
