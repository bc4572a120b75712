import type { JwsAlg } from '../jose/signature.ts'
import { readKeySet } from './fetch-key-set.ts'
import type { FetchedKeys } from './fetch-key-set.ts'
import type { KeySource, KeySourceEvent, KeySourceOptions, KeySourceState } from './key-source.ts'
import { createKeyRing, keyChanges } from './key-set.ts'
import { ProviderFailure } from './provider-failure.ts'

/** A change is noticed within this time. Kubernetes swaps a link to swap a mounted file, which a watch of the file would not notice. */
const READ_AGAIN_MS = 5000
const MAX_BYTES = 1024 * 1024

export interface KeyFileOptions extends Pick<KeySourceOptions, 'now' | 'schedule'> {
  readonly path: string
  /** The accepted algorithms of tokens. */
  readonly algs: readonly JwsAlg[]
  /** Reads a whole file of at most `maxBytes`. Rejects with an error that has a `code`. */
  readonly readFile: (path: string, maxBytes: number) => Promise<Uint8Array>
  readonly onEvent: (event: KeySourceEvent) => void
}

/**
 * The signing keys in a file, in place of those of a provider. The network is never used. The file is read again and again. If it is
 * missing or broken, the keys of the last good reading stay. A good file without keys withdraws all.
 * @throws ProviderFailure if the file is missing or broken now
 */
export async function openKeyFile ({ path, algs, readFile, now, schedule, onEvent }: KeyFileOptions): Promise<KeySource> {
  let text = await readText()
  let fetched = await readKeySet(text, new Map(), algs)
  let ring = createKeyRing(fetched.keys)
  let state: KeySourceState = { status: 'fresh', keys: ring.keys.size, passedOver: fetched.passedOver, fetchedAt: now(), fetches: 1, failures: 0, lastFailure: undefined }
  let cancelNext: (() => void) | undefined
  let isClosed = false
  let reading: Promise<void> | undefined

  async function readText (): Promise<Buffer> {
    try {
      return Buffer.from(await readFile(path, MAX_BYTES))
    } catch (error) {
      throw new ProviderFailure('file_unreadable', (error as NodeJS.ErrnoException).code)
    }
  }

  async function readAgain (): Promise<void> {
    state = { ...state, fetches: state.fetches + 1 }
    try {
      const newText = await readText()
      const isSame = newText.equals(text)
      const news = isSame ? fetched : await readKeySet(newText, ring.keys, algs)
      text = newText
      if (!isSame || state.lastFailure !== undefined) adopt(news)
      state = { ...state, status: 'fresh', fetchedAt: now(), lastFailure: undefined }
    } catch (error) {
      endure(error as ProviderFailure)
    }
    if (!isClosed) planNext()
  }

  function adopt (news: FetchedKeys): void {
    const { added, removed } = keyChanges(ring.keys, news.keys)
    fetched = news
    ring = createKeyRing(news.keys)
    state = { ...state, keys: ring.keys.size, passedOver: news.passedOver }
    report(added, removed)
  }

  function report (added: number, removed: number): void {
    const { keys, passedOver } = state
    onEvent({ name: 'keys_fetched', keys, added, removed, passedOver })
    if (passedOver.private_key !== undefined) onEvent({ name: 'keys_private', passedOver: passedOver.private_key })
  }

  function endure ({ word, detail }: ProviderFailure): void {
    const isNews = state.lastFailure !== word
    state = { ...state, status: 'stale', failures: state.failures + 1, lastFailure: word }
    if (isNews) onEvent({ name: 'keys_fetch_failed', failure: word, detail, keys: state.keys })
  }

  function planNext (): void {
    cancelNext = schedule(() => { reading = readAgain() }, READ_AGAIN_MS)
  }

  return {
    start () {
      report(state.keys, 0)
      planNext()
    },
    candidates: (kid, alg) => ring.candidates(kid, alg),
    // There is nothing more to fetch.
    fetchCandidates: async (kid, alg) => ring.candidates(kid, alg),
    isTrusted: key => ring.has(key),
    state: () => state,
    async close () {
      isClosed = true
      cancelNext?.()
      await reading
    }
  }
}
