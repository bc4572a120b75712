import { createClientAuthentication, parseClientKey } from '../provider/client-authentication.ts'
import type { ClientAuthentication, ClientKey } from '../provider/client-authentication.ts'
import { SettingsError } from '../settings/problems.ts'
import { readSecret } from '../settings/revocation-settings.ts'
import type { SecretOption, TransmitterSettings } from '../settings/revocation-settings.ts'
import type { Surroundings } from '../surroundings.ts'

const MAX_KEY_FILE_BYTES = 64 * 1024

type Sources = Pick<Surroundings, 'readFile' | 'environment'>

/**
 * How this service's client proves itself to the provider of a transmitter. Undefined if it has none.
 * @param path of the transmitter in the settings
 * @throws SettingsError if its secret or its private key is missing
 */
export async function authenticationOf (
  { clientId, clientSecret, clientAuth: method, keyFile, issuer }: TransmitterSettings,
  path: string,
  surroundings: Sources & Pick<Surroundings, 'now' | 'randomBytes'>
): Promise<ClientAuthentication | undefined> {
  if (clientId === undefined) return undefined
  const { now, randomBytes } = surroundings
  const isByKey = method === 'private_key_jwt'
  return createClientAuthentication({
    method,
    clientId,
    clientSecret: isByKey ? undefined : await secretOf(clientSecret!, `${path}.clientSecret`, surroundings),
    key: isByKey ? await keyOf(keyFile!, `${path}.keyFile`, surroundings) : undefined,
    audience: () => issuer,
    now,
    randomBytes
  })
}

/** @param path of the secret in the settings. @throws SettingsError */
export async function secretOf (secret: SecretOption, path: string, sources: Sources): Promise<string> {
  try {
    return await readSecret(secret, sources)
  } catch (error) {
    throw new SettingsError([
      `${path} is not usable: ${(error as Error).message}; allowed: a text, { file: PATH } or { env: NAME }`
    ])
  }
}

async function keyOf (file: string, path: string, { readFile }: Sources): Promise<ClientKey> {
  try {
    return parseClientKey(Buffer.from(await readFile(file, MAX_KEY_FILE_BYTES)).toString('utf8'))
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'not a private key'
    throw new SettingsError([
      `${path} is ${JSON.stringify(file)}, which is not usable (${code}); allowed: path of a file with a private key`
    ])
  }
}
