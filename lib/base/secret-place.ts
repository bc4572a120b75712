import { isUtf8 } from 'node:buffer'
import type { Surroundings } from './surroundings.ts'

/** Where a secret is: in a file, or in a variable of the environment. */
export type SecretPlace = { readonly file: string } | { readonly env: string }

/** What reads secrets. */
export type SecretSources = Pick<Surroundings, 'readFile' | 'environment'>

/**
 * The text at a place, or undefined if the variable is not set.
 * @throws Error with a `code` if the file cannot be read, or is no text
 */
export async function readPlace (
  place: SecretPlace,
  maxBytes: number,
  { readFile, environment }: SecretSources
): Promise<string | undefined> {
  if ('env' in place) return environment(place.env)
  const bytes = await readFile(place.file, maxBytes)
  if (!isUtf8(bytes)) throw Object.assign(new Error(`the file ${place.file} is not UTF-8`), { code: 'NOT_UTF8' })
  // Editors may write a BOM, which is no part of the secret. This drops it.
  return new TextDecoder().decode(bytes)
}
