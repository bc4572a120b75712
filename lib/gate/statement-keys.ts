import { readPlace } from '../secret-place.ts'
import type { SecretPlace, SecretSources } from '../secret-place.ts'
import type { Surroundings } from '../surroundings.ts'
import { createStatementSigner, readStatementKey } from './statement.ts'
import type { StatementSigner } from './statement.ts'

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

/** The signer of the keys as they are now. */
export interface StatementKeys {
  readonly current: StatementSigner
  close (): void
}

/**
 * Opens the keys of statements, and reads them again and again.
 * @throws StatementKeyError
 */
export async function openStatementKeys (
  { sources, onChange, every, ...surroundings }: StatementKeysOptions
): Promise<StatementKeys> {
  let texts = await readTexts()
  let current = signerOf(texts)
  let fault = ''

  async function readTexts (): Promise<readonly string[]> {
    return Promise.all(sources.map(async source => {
      const place = typeof source === 'string' ? { file: source } : source
      const text = await readPlace(place, MAX_BYTES, surroundings).catch((error: NodeJS.ErrnoException) => {
        throw new StatementKeyError(source, `the file cannot be read (${error.code})`)
      })
      if (text === undefined) throw new StatementKeyError(source, 'the variable is not set')
      return text
    }))
  }

  function signerOf (texts: readonly string[]): StatementSigner {
    const keys = texts.map((text, index) => {
      try {
        return readStatementKey(text)
      } catch (error) {
        throw new StatementKeyError(sources[index]!, (error as TypeError).message)
      }
    })
    return createStatementSigner(keys, surroundings)
  }

  async function readAgain (): Promise<void> {
    try {
      const read = await readTexts()
      if (read.some((text, index) => text !== texts[index])) {
        current = signerOf(read)
        texts = read
        onChange()
      }
      fault = ''
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
    get current () {
      return current
    },
    close: stop
  }
}
