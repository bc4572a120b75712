import { readKeySet } from './fetch-key-set.ts'
import { createFetchLoop } from './fetch-loop.ts'
import { candidatesIn, createKeyRing, keyChanges } from './key-set.ts'
import type { KeySet } from './key-set.ts'
import type { KeySource, KeySourceOptions } from './key-source.ts'
import { ProviderFailure } from './provider-failure.ts'
import type { ProviderFailureWord } from './provider-failure.ts'

/**
 * A change is noticed within this time. Kubernetes swaps a link to swap a mounted file, which a watch of the file would
 * not notice.
 */
const READ_AGAIN_MS = 5000
const MAX_BYTES = 1024 * 1024

export interface KeyFileOptions
  extends Pick<KeySourceOptions, 'algs' | 'keyReader' | 'now' | 'after' | 'random' | 'onEvent'> {
  readonly path: string
  /** Reads a whole file of at most `maxBytes`. Rejects with an error that has a `code`. */
  readonly readFile: (path: string, maxBytes: number) => Promise<Uint8Array>
}

/**
 * The signing keys in a file, in place of those of a provider. The network is never used. The file is read again and
 * again. If it is missing or broken, the keys of the last good reading stay. A good file without keys withdraws all.
 * @throws ProviderFailure if the file is missing or broken now
 */
export async function openKeyFile (
  { path, algs, keyReader, readFile, now, after, random, onEvent }: KeyFileOptions
): Promise<KeySource> {
  let text = await readText()
  let ring = createKeyRing(await readKeySet(text, new Map(), algs, keyReader))
  let fetchedAt = now()
  const loop = createFetchLoop({
    attempt: readAgain,
    onSuccess: adopt,
    onFailure: endure,
    pauseMs: () => READ_AGAIN_MS,
    now,
    after,
    random
  })

  async function readText (): Promise<Buffer> {
    try {
      return Buffer.from(await readFile(path, MAX_BYTES))
    } catch (error) {
      throw new ProviderFailure('file_unreadable', (error as NodeJS.ErrnoException).code)
    }
  }

  async function readAgain (): Promise<KeySet> {
    const newText = await readText()
    const read = newText.equals(text) ? ring : await readKeySet(newText, ring.keys, algs, keyReader)
    text = newText
    return read
  }

  function adopt (read: KeySet, previous: ProviderFailureWord | undefined): void {
    fetchedAt = now()
    if (read === ring && previous === undefined) return
    const { added, removed } = keyChanges(ring.keys, read.keys)
    ring = createKeyRing(read)
    report(added, removed)
  }

  function report (added: number, removed: number): void {
    const { keys: { size }, passedOver } = ring
    onEvent({ name: 'keys_fetched', keys: size, added, removed, passedOver })
    if (passedOver.private_key !== undefined) onEvent({ name: 'keys_private', passedOver: passedOver.private_key })
  }

  function endure ({ word, detail }: ProviderFailure, previous: ProviderFailureWord | undefined): void {
    if (word !== previous) onEvent({ name: 'keys_fetch_failed', failure: word, detail, keys: ring.keys.size })
  }

  return {
    start () {
      report(ring.keys.size, 0)
      loop.plan()
    },
    candidates: (kid, alg) => candidatesIn(ring, kid, alg),
    // There is nothing more to fetch.
    fetchCandidates: async (kid, alg) => candidatesIn(ring, kid, alg),
    isTrusted: key => ring.members.has(key),
    state () {
      const { fetches, failures, lastFailure } = loop
      const status = lastFailure === undefined ? 'fresh' : 'stale'
      // The reading above counts as a fetch.
      return {
        status,
        keys: ring.keys.size,
        passedOver: ring.passedOver,
        fetchedAt,
        fetches: fetches + 1,
        failures,
        lastFailure
      }
    },
    close: loop.close
  }
}
