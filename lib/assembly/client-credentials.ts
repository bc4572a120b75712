import { createClientAuthentication } from '../provider/client-authentication.ts'
import type { ClientAuthentication } from '../provider/client-authentication.ts'
import { nameOf } from '../settings/problems.ts'
import type { TransmitterSettings } from '../settings/revocation-settings.ts'
import { readClientKey, readSecret } from '../settings/secret.ts'
import type { IntrospectionSettings } from '../settings/settings.ts'
import type { Surroundings } from '../surroundings.ts'

interface Client extends Pick<TransmitterSettings, 'clientSecret' | 'keyFile'> {
  readonly method: TransmitterSettings['clientAuth']
  readonly clientId: string
  readonly audience: () => string
  /** How messages name its secret and its private key. */
  readonly names: { readonly secret: string, readonly key: string }
}

/**
 * How this service's client proves itself at an issuer.
 * @param issuer the audience of an assertion, unless the settings name another one
 * @throws SettingsError if its secret or its private key is missing, or is none
 */
export function createAuthentication (
  issuer: () => string,
  { auth: method, clientId, clientSecret, keyFile, assertionAudience }: IntrospectionSettings,
  surroundings: Surroundings
): Promise<ClientAuthentication> {
  const audience = assertionAudience === undefined ? issuer : () => assertionAudience
  const names = { secret: nameOf('idp.introspection.clientSecret'), key: nameOf('idp.introspection.keyFile') }
  return authenticationOf({ method, clientId, clientSecret, keyFile, audience, names }, surroundings)
}

/**
 * How this service's client proves itself to the provider of a transmitter. Undefined if it has none.
 * @param path of the transmitter in the settings
 * @throws SettingsError as above
 */
export async function transmitterAuthentication (
  { clientId, clientSecret, clientAuth: method, keyFile, issuer }: TransmitterSettings,
  path: string,
  surroundings: Surroundings
): Promise<ClientAuthentication | undefined> {
  if (clientId === undefined) return undefined
  const names = { secret: `${path}.clientSecret`, key: `${path}.keyFile` }
  return authenticationOf({ method, clientId, clientSecret, keyFile, audience: () => issuer, names }, surroundings)
}

async function authenticationOf (
  { clientSecret, keyFile, names, ...client }: Client,
  surroundings: Surroundings
): Promise<ClientAuthentication> {
  const isByKey = client.method === 'private_key_jwt'
  return createClientAuthentication({
    ...client,
    clientSecret: isByKey ? undefined : await readSecret(clientSecret!, names.secret, surroundings),
    key: isByKey ? await readClientKey(keyFile!, names.key, surroundings) : undefined,
    ...surroundings
  })
}
