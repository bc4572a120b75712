import { executionAsyncResource } from 'node:async_hooks'
import { availableParallelism } from 'node:os'
import { nextTick } from 'node:process'
import { setFlagsFromString } from 'node:v8'

const OPTIMIZE_AFTER_MS = 500

const kept: object[] = []

/**
 * Prepares V8 for a service: for a start on one core, and for requests that wait for something, here the thread pool. To be called
 * once, before the app is loaded. bench/README.md has the figures of each step.
 */
export function tuneEngine (cores = availableParallelism()): void {
  // Objects that often outlive a small collection would come to be made in old space, where each of them keeps a
  // whole request alive until the next full collection.
  setFlagsFromString('--no-allocation-site-pretenuring')
  // Node makes such an object for each process.nextTick, about eight a request. When a full collection finds none, V8 drops
  // their shape, and from then on makes them the slow way.
  nextTick(() => kept.push(executionAsyncResource()))
  // On a single core the threads that mark what is alive would take their time from the requests.
  if (cores === 1) setFlagsFromString('--no-concurrent-marking')
  // What runs while the app is loaded mostly runs once. On a single core the optimizing compiler would take its time from that.
  setFlagsFromString('--no-opt')
  setTimeout(() => setFlagsFromString('--opt'), OPTIMIZE_AFTER_MS).unref()
}
