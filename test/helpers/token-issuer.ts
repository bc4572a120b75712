import type { JWK } from 'jose'
import type { Test } from 'tap'
import { createDpopClient, type DpopClient } from './dpop-client.ts'
import { startHostileProvider, type HostileProvider } from './hostile-provider.ts'
import { AUDIENCE, type Overrides } from './issuer.ts'
import { encodeJws } from './jws.ts'

/** A key that tokens are signed with, by any algorithm. */
export interface TokenKey {
  alg: string
  kid: string
  /** The public key, with `kid` and without `alg`. */
  jwk: JWK
  sign: DpopClient['sign']
}

export async function createTokenKey (alg = 'RS256', kid = alg): Promise<TokenKey> {
  const { jwk, sign } = await createDpopClient(alg)
  return { alg, kid, jwk: { ...jwk, kid }, sign }
}

interface TokenParts {
  header?: Overrides
  claims?: Overrides
}

/** A token that passes, but for the overrides. Each one is another. */
export function makeToken (
  iss: string,
  { alg, kid, sign }: TokenKey,
  { header = {}, claims = {} }: TokenParts = {}
): string {
  const now = Math.floor(Date.now() / 1000)
  return encodeJws({ alg, kid, ...header }, {
    iss,
    aud: AUDIENCE,
    sub: 'user-1',
    exp: now + 600,
    jti: String(serial++),
    ...claims
  }, sign)
}

let serial = 0

/** A provider that publishes these keys. It ends with the test. */
export async function startTokenProvider (t: Test, ...keys: object[]): Promise<HostileProvider> {
  const provider = await startHostileProvider()
  t.teardown(provider.close)
  provider.publish(...keys)
  return provider
}
