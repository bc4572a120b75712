import { parseClientKey, type ClientKey } from '../guard/provider/client-authentication.ts'
import { isJsonObject } from '../base/json.ts'
import { holdsKey, quoteSetting } from '../base/printable.ts'
import { readPlace, type SecretPlace, type SecretSources } from '../base/secret-place.ts'
import { decodeSecret } from './formats.ts'
import { SettingsError } from '../base/settings-error.ts'
import { SECRET } from './section-specs.ts'
import type { Part, ValueOf } from './setting-spec.ts'
import type { RawSettings } from './specs.ts'
import { put, SCHEMA, valueAt } from './tree.ts'

/** A secret as text, or where it is: a file, or a variable of the environment. */
export type SecretValue = ValueOf<typeof SECRET>

const MAX_SECRET_BYTES = 16 * 1024
const MAX_KEY_BYTES = 64 * 1024

/**
 * The text of a secret. The last line break of a file does not count.
 * @param name how messages name its setting
 * @throws SettingsError that says what is wrong, without any of the text
 */
export async function readSecret (secret: SecretValue, name: string, sources: SecretSources): Promise<string> {
  try {
    return await textOf(secret, sources)
  } catch (error) {
    throw new SettingsError([`${name} is not usable: ${(error as Error).message}; allowed: ${SECRET.allowed}`])
  }
}

/** Names that are shown. A template may have put the secret itself in the place of any other. */
const VARIABLE = /^[A-Z_][A-Z\d_]*$/
const PATH = /^(?!.*:\/\/)(?:\.{0,2}\/|[^@]*[./]|[A-Za-z_-]+$)/

async function textOf (secret: SecretValue, sources: SecretSources): Promise<string> {
  if (typeof secret === 'string') return secret
  if (holdsKey(JSON.stringify(secret))) fail('a key itself (not shown) is no path and no variable')
  const isVariable = 'env' in secret
  const name = isVariable ? secret.env : secret.file
  const isShown = (isVariable ? VARIABLE : PATH).test(name)
  const what = `the ${isVariable ? 'variable' : 'file'} ${isShown ? name : '(not shown: it may be the secret itself)'}`
  const text = await readPlace(secret, MAX_SECRET_BYTES, sources).catch((error: NodeJS.ErrnoException) =>
    fail(isShown ? error.message : `${what} cannot be read (${error.code})`)
  )
  const read = isVariable ? text : text!.replace(/\r?\n$/, '')
  if (!read) fail(`${what} is ${isVariable ? 'not set' : 'empty'}`)
  return /\p{Cc}/u.test(read) ? fail(`${what} holds a control character`) : read
}

function fail (why: string): never {
  throw new Error(why)
}

/** The parts that are read where the settings say that they are, by their paths. */
const PLACED: ReadonlyArray<readonly [path: string, part: Part]> = Object.entries(SCHEMA.properties!).flatMap((
  [section, { properties = {} }]
) => Object.entries(properties).filter(([, { placed }]) => placed).map(([name, part]) => [`${section}.${name}`, part]))

/**
 * Reads the secrets that may be at a place of their own into the settings, before their texts are judged. One that
 * cannot be read stays as it is.
 * @returns why, by the paths of their parts
 */
export async function readPlaced (values: RawSettings, sources: SecretSources): Promise<ReadonlyMap<string, string>> {
  const unread = new Map<string, string>()
  for (const [path, { items }] of PLACED) {
    const given = valueAt(values, path)
    if (given === undefined) continue
    const read = async (secret: unknown): Promise<unknown> => {
      if (isJsonObject(secret) && 'url' in secret) return { ...secret, url: await read(secret.url) }
      if (!isPlace(secret)) return secret
      return textOf(secret, sources).catch((error: Error) => {
        unread.set(path, error.message)
        return secret
      })
    }
    put(values, path, items ? await Promise.all([given].flat().map(read)) : await read(given))
  }
  return unread
}

/** Whether a value is one of a place, and nothing more. */
function isPlace (value: unknown): value is SecretPlace {
  if (!isJsonObject(value)) return false
  const [[name, where] = [], ...others] = Object.entries(value)
  return (name === 'file' || name === 'env') && typeof where === 'string' && where !== '' && others.length === 0
}

/** The private key of a client in a file. @throws SettingsError */
export async function readClientKey (file: string, name: string, sources: SecretSources): Promise<ClientKey> {
  try {
    return parseClientKey((await readPlace({ file }, MAX_KEY_BYTES, sources))!)
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'not a private key'
    throw new SettingsError([
      `${name} is ${quoteSetting(file)}, which is not usable (${code}); allowed: path of a file with a private key`
    ])
  }
}

/** The key of pseudonyms: at least 32 bytes, in base64url. @throws SettingsError */
export async function readPseudonymKey (secret: SecretValue, sources: SecretSources): Promise<Buffer> {
  const text = await textOf(secret, sources).catch((error: Error) => refusePseudonymKey(`: ${error.message}`))
  return decodeSecret(text) ?? refusePseudonymKey(' (its value is not shown)')
}

function refusePseudonymKey (why: string): never {
  throw new SettingsError([`audit.pseudonymKey is not usable${why}; allowed: 32 bytes or more in base64url`])
}
