import { createClientAuthentication, type ClientAuthentication } from '../guard/provider/client-authentication.ts'
import { partName } from '../settings/problems.ts'
import type { TransmitterSettings } from '../settings/revocation-settings.ts'
import { readClientKey, readSecret } from '../settings/secret.ts'
import type { IntrospectionSettings } from '../settings/settings.ts'
import type { Surroundings } from '../base/surroundings.ts'

interface Client extends Pick<TransmitterSettings, 'clientSecret' | 'keyFile'> {
  readonly method: TransmitterSettings['clientAuth']
  readonly clientId: string
  readonly audience: () => string
}

/**
 * How this service's client proves itself at an issuer.
 * @param issuer the audience of an assertion, unless the settings name another one
 * @throws SettingsError if its secret or its private key is missing, or is none
 */
export function createAuthentication (
  issuer: () => string,
  { path, auth: method, clientId, clientSecret, keyFile, assertionAudience }: IntrospectionSettings,
  surroundings: Surroundings
): Promise<ClientAuthentication> {
  const audience = assertionAudience === undefined ? issuer : () => assertionAudience
  return authenticationOf({ method, clientId, clientSecret, keyFile, audience }, path, surroundings)
}

/**
 * How this service's client proves itself to the provider of a transmitter, or undefined if it has none.
 * @param path of the transmitter in the settings
 * @throws SettingsError as above
 */
export async function transmitterAuthentication (
  { clientId, clientSecret, clientAuth: method, keyFile, issuer }: TransmitterSettings,
  path: string,
  surroundings: Surroundings
): Promise<ClientAuthentication | undefined> {
  if (clientId === undefined) return undefined
  return authenticationOf({ method, clientId, clientSecret, keyFile, audience: () => issuer }, path, surroundings)
}

/** @param path of the client in the settings, by which messages name its secret and its private key */
async function authenticationOf (
  { clientSecret, keyFile, ...client }: Client,
  path: string,
  surroundings: Surroundings
): Promise<ClientAuthentication> {
  const isByKey = client.method === 'private_key_jwt'
  return createClientAuthentication({
    ...client,
    clientSecret: isByKey ? undefined : await readSecret(clientSecret!, partName(`${path}.clientSecret`), surroundings),
    key: isByKey ? await readClientKey(keyFile!, partName(`${path}.keyFile`), surroundings) : undefined,
    ...surroundings
  })
}
