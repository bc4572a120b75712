import type { Surroundings } from '../surroundings.ts'
import { createStatementSigner, readStatementKey } from './statement.ts'
import type { StatementSigner } from './statement.ts'

/** A change is noticed within this time. */
const READ_AGAIN_MS = 5000
const MAX_BYTES = 64 * 1024

/** A file of a key cannot be used. The message holds no part of it. */
export class StatementKeyError extends Error {
  override readonly name = 'StatementKeyError'
  readonly path: string

  constructor (path: string, message: string) {
    super(message)
    this.path = path
  }
}

export interface StatementKeysOptions extends Pick<Surroundings, 'now' | 'randomBytes' | 'readFile' | 'every'> {
  /** Of the files, in the order of the settings. */
  readonly paths: readonly string[]
  /**
   * Called after a change: with what is wrong with the files, and then the keys stay as they were, or without an error
   * for new keys.
   */
  readonly onChange: (error?: StatementKeyError) => void
}

/** The signer of the keys in the files as they are now. */
export interface StatementKeys {
  readonly current: StatementSigner
  close (): void
}

/**
 * Opens the files with the keys of statements, and reads them again and again.
 * @throws StatementKeyError
 */
export async function openStatementKeys (
  { paths, onChange, readFile, every, ...surroundings }: StatementKeysOptions
): Promise<StatementKeys> {
  let texts = await readTexts()
  let current = signerOf(texts)
  let fault = ''

  async function readTexts (): Promise<readonly string[]> {
    return Promise.all(paths.map(async path => {
      try {
        return Buffer.from(await readFile(path, MAX_BYTES)).toString()
      } catch (error) {
        throw new StatementKeyError(path, `the file cannot be read (${(error as NodeJS.ErrnoException).code})`)
      }
    }))
  }

  function signerOf (texts: readonly string[]): StatementSigner {
    const keys = texts.map((text, index) => {
      try {
        return readStatementKey(text)
      } catch (error) {
        throw new StatementKeyError(paths[index]!, (error as TypeError).message)
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
      const { path, message } = error as StatementKeyError
      if (fault !== `${path} ${message}`) onChange(error as StatementKeyError)
      fault = `${path} ${message}`
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
