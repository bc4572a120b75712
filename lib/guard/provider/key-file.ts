import { readKeySet, type ProviderKeysOptions } from './fetch-key-set.ts'
import { createKeySource, type KeySource, type KeySourceOptions } from './key-source.ts'
import { ProviderFailure } from './provider-failure.ts'

/**
 * A change is noticed within this time. Kubernetes swaps a link to swap a mounted file, which a watch of the file would
 * not notice.
 */
const READ_AGAIN_MS = 5000
const MAX_BYTES = 1024 * 1024

interface KeyFileOptions
  extends Omit<KeySourceOptions, 'fetch'>, Pick<ProviderKeysOptions, 'algs' | 'readPem'> {
  readonly path: string
  /** Reads a whole file of at most `maxBytes`. Rejects with an error that has a `code`. */
  readonly readFile: (path: string, maxBytes: number) => Promise<Uint8Array>
}

/** The bytes of a file with keys. @throws ProviderFailure file_unreadable, also for one that is too large */
export async function readKeyFile (path: string, readFile: KeyFileOptions['readFile']): Promise<Uint8Array> {
  try {
    return await readFile(path, MAX_BYTES)
  } catch (error) {
    throw new ProviderFailure('file_unreadable', (error as NodeJS.ErrnoException).code)
  }
}

/**
 * The signing keys in a file, in place of those of a provider. The network is never used. The file is read again and
 * again. If it is missing or broken, the keys of the last good reading stay. A good file without keys withdraws all.
 * @throws ProviderFailure if the file is missing or broken now
 */
export async function openKeyFile (
  { path, algs, readPem, readFile, onEvent, ...surroundings }: KeyFileOptions
): Promise<KeySource> {
  const readText = () => readKeyFile(path, readFile)
  await readKeySet(await readText(), [], algs, readPem)
  return createKeySource({
    ...surroundings,
    fetch: async known => readKeySet(await readText(), known, algs, readPem),
    pauseMs: READ_AGAIN_MS,
    graceSeconds: Infinity,
    onEvent (event) {
      onEvent(event)
      if (event.name === 'keys_fetched' && event.passedOver.private_key !== undefined) {
        onEvent({ name: 'keys_private', passedOver: event.passedOver.private_key })
      }
    }
  })
}
