import { readPlace, type SecretPlace, type SecretSources } from '../base/secret-place.ts'
import type { Surroundings } from '../base/surroundings.ts'
import { createStatementSigner, readStatementKey, type StatementKey } from './statement.ts'

/** A change is noticed within this time. */
const READ_AGAIN_MS = 5000
const MAX_BYTES = 64 * 1024

/** Where the text of a key is. A text alone is the path of a file. */
export type StatementKeySource = string | SecretPlace

/** A key cannot be used. The message holds no part of it. */
export class StatementKeyError extends Error {
  override readonly name = 'StatementKeyError'
  /** The path of the file, or the variable as the settings have it. */
  readonly source: string | { readonly env: string }

  constructor (source: StatementKeySource, message: string) {
    super(message)
    this.source = typeof source === 'object' && 'file' in source ? source.file : source
  }
}

export interface StatementKeysOptions extends SecretSources, Pick<Surroundings, 'now' | 'randomBytes' | 'every'> {
  /** In the order of the settings. */
  readonly sources: readonly StatementKeySource[]
  /**
   * Called after a change: with what is wrong with a key, and then the keys stay as they were, or without an error
   * for new keys.
   */
  readonly onChange: (error?: StatementKeyError) => void
}

export type StatementKeys = Awaited<ReturnType<typeof openStatementKeys>>

/**
 * Opens the keys of statements, and reads them again and again.
 * @throws StatementKeyError
 */
export async function openStatementKeys ({ sources, onChange, every, ...surroundings }: StatementKeysOptions) {
  let keys = await readKeys()
  let current = createStatementSigner(keys, surroundings)
  let fault: string | undefined

  /** One after the other: of several faults, the same one is found each time. */
  async function readKeys (): Promise<readonly StatementKey[]> {
    const keys: StatementKey[] = []
    for (const source of sources) keys.push(await readKey(source))
    return keys
  }

  async function readKey (source: StatementKeySource) {
    const place = typeof source === 'string' ? { file: source } : source
    const text = await readPlace(place, MAX_BYTES, surroundings).catch((error: NodeJS.ErrnoException) => {
      throw new StatementKeyError(source, `the file cannot be read (${error.code})`)
    })
    if (text === undefined) throw new StatementKeyError(source, 'the variable is not set')
    const key = readStatementKey(text)
    if (!key) throw new StatementKeyError(source, 'it is no private key in PKCS#8 and PEM form, EC P-256')
    return key
  }

  async function readAgain () {
    try {
      const read = await readKeys()
      if (read.some(({ jwk }, index) => jwk.kid !== keys[index]!.jwk.kid)) {
        keys = read
        current = createStatementSigner(keys, surroundings)
        onChange()
      }
      fault = undefined
    } catch (error) {
      const { source, message } = error as StatementKeyError
      const found = JSON.stringify([source, message])
      if (fault !== found) onChange(error as StatementKeyError)
      fault = found
    }
  }

  const stop = every(READ_AGAIN_MS, () => {
    readAgain()
  })
  return {
    /** The signer of the keys as they are now. */
    get current () {
      return current
    },
    close: stop
  }
}
