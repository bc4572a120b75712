import { executionAsyncResource } from 'node:async_hooks'
import { nextTick } from 'node:process'
import { setFlagsFromString } from 'node:v8'

const kept: object[] = []

/**
 * Prepares V8 for a process whose requests wait for something, here for the thread pool. To be called once, before
 * the app is loaded. bench/README.md has the figures of both steps.
 */
export function tuneEngine (): void {
  // Objects that often outlive a small collection would come to be made in old space, where each of them keeps a
  // whole request alive until the next full collection.
  setFlagsFromString('--no-allocation-site-pretenuring')
  // Node makes such an object for each process.nextTick, about eight a request. When a full collection finds none, V8 drops
  // their shape, and from then on makes them the slow way.
  nextTick(() => kept.push(executionAsyncResource()))
}
