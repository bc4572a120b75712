import { executionAsyncResource } from 'node:async_hooks'
import { nextTick } from 'node:process'

const kept: object[] = []

/**
 * Keeps one of the objects alive that Node makes for `process.nextTick`, of which a request takes about eight. When a full
 * collection finds none, V8 drops their shape and from then on makes each of them the slow way: bench/README.md has the figures.
 * To be called once, early, before the first full collection.
 */
export function keepTickShape (): void {
  nextTick(() => kept.push(executionAsyncResource()))
}
