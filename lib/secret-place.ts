import type { Surroundings } from './surroundings.ts'

/** Where a secret is: in a file, or in a variable of the environment. */
export type SecretPlace = { readonly file: string } | { readonly env: string }

/** What reads secrets. */
export type SecretSources = Pick<Surroundings, 'readFile' | 'environment'>

/**
 * The text at a place. Undefined if the variable is not set.
 * @throws Error with a `code` if the file cannot be read
 */
export async function readPlace (
  place: SecretPlace,
  maxBytes: number,
  { readFile, environment }: SecretSources
): Promise<string | undefined> {
  if ('env' in place) return environment(place.env)
  return Buffer.from(await readFile(place.file, maxBytes)).toString('utf8')
}
