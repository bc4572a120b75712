import { parseClientKey } from '../provider/client-authentication.ts'
import type { ClientKey } from '../provider/client-authentication.ts'
import type { Surroundings } from '../surroundings.ts'
import { decodeSecret } from './formats.ts'
import { SettingsError } from './problems.ts'
import { SECRET } from './section-specs.ts'
import type { ValueOf } from './setting-spec.ts'

/** A secret as text, or where it is: a file, or a variable of the environment. */
export type SecretOption = ValueOf<typeof SECRET>

type Sources = Pick<Surroundings, 'readFile' | 'environment'>

const MAX_SECRET_BYTES = 16 * 1024
const MAX_KEY_BYTES = 64 * 1024

/**
 * The text of a secret. The last line break of a file does not count.
 * @param name how messages name its setting
 * @throws SettingsError that says what is wrong, without any of the text
 */
export async function readSecret (secret: SecretOption, name: string, sources: Sources): Promise<string> {
  try {
    return await textOf(secret, sources)
  } catch (error) {
    throw new SettingsError([`${name} is not usable: ${(error as Error).message}; allowed: ${SECRET.allowed}`])
  }
}

async function textOf (secret: SecretOption, { readFile, environment }: Sources): Promise<string> {
  if (typeof secret === 'string') return secret
  const text = 'env' in secret
    ? environment(secret.env)
    : textIn(await readFile(secret.file, MAX_SECRET_BYTES)).replace(/\r?\n$/, '')
  if (text === undefined || text === '') {
    throw new Error('env' in secret ? `the variable ${secret.env} is not set` : `the file ${secret.file} is empty`)
  }
  return text
}

const textIn = (bytes: Uint8Array): string => Buffer.from(bytes).toString('utf8')

/** The private key of a client in a file. @throws SettingsError */
export async function readClientKey (file: string, name: string, { readFile }: Sources): Promise<ClientKey> {
  try {
    return parseClientKey(textIn(await readFile(file, MAX_KEY_BYTES)))
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'not a private key'
    throw new SettingsError([
      `${name} is ${JSON.stringify(file)}, which is not usable (${code}); allowed: path of a file with a private key`
    ])
  }
}

/** The key of pseudonyms: at least 32 bytes, in base64url. @throws SettingsError */
export async function readPseudonymKey (secret: SecretOption, sources: Sources): Promise<Buffer> {
  const name = 'audit.pseudonymKey'
  const key = decodeSecret(
    await textOf(secret, sources).catch((error: Error) => {
      throw new SettingsError([`${name} is not usable: ${error.message}`])
    })
  )
  if (key) return key
  throw new SettingsError([
    `${name} is not usable (its value is not shown); allowed: 32 bytes or more in base64url`
  ])
}
