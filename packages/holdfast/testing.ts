import { generateKeyPair, randomUUID, sign } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { promisify } from 'node:util'
import type { Answer, Transport } from '../../lib/provider/transport.ts'
import { kStandIns } from '../../lib/stand-ins.ts'
import type { StandIns } from '../../lib/stand-ins.ts'
import { processSurroundings } from '../../server/surroundings.ts'
import { createTestClient } from './testing-client.ts'
import type { TestClient } from './testing-client.ts'

export type { InjectableApp, InjectedRequest, ProofHeaders, TestClient } from './testing-client.ts'

/** Extra or other claims of a token. A claim that is undefined is left out. */
export type TestClaims = Readonly<Record<string, unknown>>

export interface TestIssuerOptions {
  /** The issuer's URL. Nothing is ever sent to it. Default: `https://issuer.test/`. */
  readonly issuer?: string
  /** Default: `https://api.test`. */
  readonly audience?: string
  /** The address under which clients reach the app, if it is not the host of the request. */
  readonly publicUrl?: string
}

/** What the plugin is registered with. It also carries the keys and the clock of the issuer, and so does a copy of it. */
export interface TestPluginOptions {
  readonly idp: { readonly issuer: string, readonly audience: string }
  readonly server: { readonly publicUrl?: string }
}

/** An identity provider in memory: it opens no port and asks no network. */
export interface TestIssuer {
  /** Options for `holdfast` and `holdfast/service`. For more: `{ ...idp.options, dpop: { nonce: 'required' } }`. */
  readonly options: TestPluginOptions
  /** A Bearer token that passes for 10 minutes, with these claims beside `iss`, `aud`, `sub`, `iat` and `exp`. */
  token (claims?: TestClaims): Promise<string>
  /** A token that was valid until an hour ago. */
  expiredToken (claims?: TestClaims): Promise<string>
  /** A token for another API. */
  wrongAudienceToken (claims?: TestClaims): Promise<string>
  /** A token that names the issuer's key and is signed with another one. */
  wrongKeyToken (claims?: TestClaims): Promise<string>
  /** A client with a key of its own, and with a token that is bound to the key (RFC 9449). */
  dpopClient (claims?: TestClaims): Promise<TestClient>
  /** The clock of the issuer, of its clients, and of every app that is registered with its options. */
  readonly clock: {
    advance (seconds: number): void
    /** Unix seconds. */
    now (): number
  }
}

const LIFETIME_SECONDS = 600
const KEY_ID = 'test-key'

const makeKey = () => promisify(generateKeyPair)('rsa', { modulusLength: 2048 })

/** Makes an issuer with a fresh key. Works with every test runner: it registers nothing and needs no end. */
export async function createTestIssuer ({ issuer = 'https://issuer.test/', audience = 'https://api.test', publicUrl }: TestIssuerOptions = {}): Promise<TestIssuer> {
  const { privateKey, publicKey } = await makeKey()
  let aheadMs = 0
  const wallMs = (): number => Date.now() + aheadMs
  const now = (): number => Math.floor(wallMs() / 1000)
  const standIns: StandIns = {
    surroundings: { ...processSurroundings, wallMs, steadyMs: () => performance.now() + aheadMs },
    transport: providerInMemory(issuer, { keys: [{ ...publicKey.export({ format: 'jwk' }), kid: KEY_ID, use: 'sig', alg: 'RS256' }] })
  }
  const claimsWith = (claims: TestClaims): TestClaims => ({ iss: issuer, aud: audience, sub: 'user-1', jti: randomUUID(), iat: now(), exp: now() + LIFETIME_SECONDS, ...claims })
  const signed = (claims: TestClaims, key = privateKey): string => signToken(claimsWith(claims), key)

  return {
    options: { idp: { issuer, audience }, server: publicUrl === undefined ? {} : { publicUrl }, [kStandIns]: standIns } as TestPluginOptions,
    token: async (claims = {}) => signed(claims),
    expiredToken: async (claims = {}) => signed({ iat: now() - 2 * 3600, exp: now() - 3600, ...claims }),
    wrongAudienceToken: async (claims = {}) => signed({ aud: 'https://another-api.test', ...claims }),
    wrongKeyToken: async (claims = {}) => signed(claims, (await makeKey()).privateKey),
    dpopClient: async (claims = {}) => createTestClient({ publicUrl, now, tokenFor: jkt => signed({ cnf: { jkt }, ...claims }) }),
    clock: {
      advance (seconds) { aheadMs += seconds * 1000 },
      now
    }
  }
}

function signToken (claims: TestClaims, key: KeyObject): string {
  const input = [{ alg: 'RS256', typ: 'at+jwt', kid: KEY_ID }, claims].map(part => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
  return `${input}.${sign('sha256', Buffer.from(input), key).toString('base64url')}`
}

/** Answers discovery and the key set of one issuer. The plugin reads them by the same way as those of a real provider. */
function providerInMemory (issuer: string, keySet: object): Transport {
  const base = issuer.endsWith('/') ? issuer : `${issuer}/`
  const jwksUri = `${base}.well-known/jwks.json`
  const documents: Readonly<Record<string, object>> = {
    [`${base}.well-known/openid-configuration`]: { issuer, jwks_uri: jwksUri },
    [jwksUri]: keySet
  }
  const answer = (document: object | undefined): Answer => ({ status: document ? 200 : 404, body: Buffer.from(JSON.stringify(document ?? {})) })
  return {
    open: () => ({
      get: async url => answer(documents[url]),
      close () {}
    })
  }
}
