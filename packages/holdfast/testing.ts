import { randomBytes, randomUUID } from 'node:crypto'
import { createCertificateReader } from '../../lib/certificate/client-certificate.ts'
import { kTestDoubles } from '../../server/surroundings.ts'
import type { TestDoubles } from '../../server/surroundings.ts'
import { processSurroundings } from '../../server/surroundings.ts'
import { createCertificateClient } from './testing-certificate.ts'
import type { CertificateClient } from './testing-certificate.ts'
import { createTestClient } from './testing-client.ts'
import type { TestClient } from './testing-client.ts'
import { makeTestKey } from './testing-key.ts'
import { ASKING_CLIENT, createProviders } from './testing-provider.ts'
import type { ProvidersInMemory } from './testing-provider.ts'
import { makeTransmitter, readRevocation } from './testing-revocation.ts'
import type { TestRevocation, TestTransmitter } from './testing-revocation.ts'

export type { CertificateClient, CertificateHeaders } from './testing-certificate.ts'
export type { InjectableApp, InjectedRequest, InjectedUrl, ProofHeaders, TestClient } from './testing-client.ts'
export type { TestRevocation, TestSecurityEvent, TestTransmitter, TestTransmitterEntry } from './testing-revocation.ts'

/** Extra or other claims of a token. A claim that is undefined is left out. */
export type TestClaims = Readonly<Record<string, unknown>>

/** The options of `createTestIssuer`. */
export interface TestIssuerOptions {
  /**
   * The issuer's URL. Nothing is ever sent to it. Default: `https://issuer.test/`; of the second issuer of an app
   * `https://issuer-2.test/`, and so on.
   */
  readonly issuer?: string | undefined
  /** Default: that of the issuer beside it, or `https://api.test`. */
  readonly audience?: string | undefined
  /**
   * The address under which clients reach the app, if it is not the host of the request. Default: that of the issuer
   * beside it.
   */
  readonly publicUrl?: string | undefined
  /**
   * Another issuer of the same app. The new one goes by the clock of that one. Register the app with the options of the
   * new one: they are for both.
   */
  readonly beside?: TestIssuer<TestPluginOptions | JoinedPluginOptions> | undefined
}

/** How the app asks an issuer in memory about opaque tokens (RFC 7662). */
export interface TestIntrospection {
  /** Only opaque tokens are introspected. */
  readonly for: 'opaque'
  /** The client of the app at the issuer. */
  readonly clientId: string
  /** The secret of that client. */
  readonly clientSecret: string
}

/** One issuer of several, as the options of the plugin name it. */
export interface TestIssuerEntry {
  /** The issuer's URL. */
  readonly issuer: string
  /** Identifier of the API. */
  readonly audience: string
  /** Only the issuer that was made first has opaque tokens. */
  readonly introspection?: TestIntrospection
}

/** How the app is reached. */
export interface TestServerOptions {
  /** The address under which clients reach the app. */
  readonly publicUrl?: string
}

/**
 * What the plugin is registered with. It also carries the keys and the clock of the issuer, and so does a copy of it.
 */
export interface TestPluginOptions {
  /** The identity provider. */
  readonly idp: TestIssuerEntry
  /** How the app is reached. */
  readonly server: TestServerOptions
}

/** The same for an app with several issuers. */
export interface JoinedPluginOptions {
  /** The identity providers. */
  readonly idp: {
    /** In the order in which they were made. */
    readonly issuers: readonly TestIssuerEntry[]
  }
  /** How the app is reached. */
  readonly server: TestServerOptions
}

/** The options of `createTestTransmitter`. */
export interface TestTransmitterOptions {
  /** The issuer about whose tokens it speaks. If that one was made beside another, about the tokens of both. */
  readonly beside: TestIssuer<TestPluginOptions | JoinedPluginOptions>
  /** The URL of the transmitter. Nothing is ever sent to it. Default: `https://transmitter.test`. */
  readonly issuer?: string
}

/** An identity provider in memory: it opens no port and asks no network. */
export interface TestIssuer<Options = TestPluginOptions> {
  /** Options for `holdfast` and `holdfast/service`. For more: `{ ...idp.options, dpop: { nonce: 'required' } }`. */
  readonly options: Options
  /**
   * A Bearer token that passes for 10 minutes, with these claims beside `iss`, `aud`, `sub`, `iat` and `exp`.
   * @example
   * const token = await idp.token({ sub: 'ann', scope: 'read:orders' })
   * await app.inject({ url: '/orders', headers: { authorization: `Bearer ${token}` } }) // 200
   */
  token (claims?: TestClaims): Promise<string>
  /**
   * The same as an opaque token: its claims are what the issuer answers about it. Rejects for an issuer that was made
   * beside another.
   * @example const token = await idp.opaqueToken({ sub: 'ann', scope: 'read:orders' })
   */
  opaqueToken (claims?: TestClaims): Promise<string>
  /**
   * A token that was valid until an hour ago.
   * @example const token = await idp.expiredToken({ scope: 'read:orders' }) // 401 token_expired
   */
  expiredToken (claims?: TestClaims): Promise<string>
  /**
   * A token for another API.
   * @example const token = await idp.wrongAudienceToken({ scope: 'read:orders' }) // 401 token_audience
   */
  wrongAudienceToken (claims?: TestClaims): Promise<string>
  /**
   * A token that names the issuer's key and is signed with another one.
   * @example const token = await idp.wrongKeyToken({ scope: 'read:orders' }) // 401 token_signature
   */
  wrongKeyToken (claims?: TestClaims): Promise<string>
  /**
   * A client with a key of its own, and with a token that is bound to the key (RFC 9449).
   * @example
   * const client = await idp.dpopClient({ sub: 'ann', scope: 'read:orders' })
   * const answer = await client.inject(app, '/orders')
   */
  dpopClient (claims?: TestClaims): Promise<TestClient>
  /**
   * A client with a certificate of its own, and with a token that is bound to it (RFC 8705). A test has no connection
   * with TLS, so its requests carry the certificate in headers. The app reads the one that `server.clientCertificate`
   * names, as behind a proxy, or without that option `Client-Cert`.
   * @example
   * const client = await idp.certificateClient({ scope: 'read:orders' })
   * const answer = await client.inject(app, '/orders')
   */
  certificateClient (claims?: TestClaims): Promise<CertificateClient>
  /**
   * Takes back every token of the issuer with this `sub` that was issued up to now, or with this `sid` or `jti` at any
   * time, in every app that is registered with the options and a section `revocation`. Resolves when it is in force.
   * Rejects if there is no such app. Times of tokens are whole seconds: a new token of the same `sub` passes after
   * `clock.advance(1)`.
   * @example await idp.revoke({ sub: 'ann' })
   */
  revoke (what: TestRevocation): Promise<void>
  /** The clock of the issuer, of its clients, and of every app that is registered with its options. */
  readonly clock: TestClock
}

/** A clock that a test moves. */
export interface TestClock {
  /**
   * Lets time pass.
   * @example idp.clock.advance(3600) // tokens of before have expired
   */
  advance (seconds: number): void
  /**
   * Unix seconds.
   * @example const token = await idp.token({ exp: idp.clock.now() + 5 })
   */
  now (): number
}

/** What the issuers of one app share. */
interface Joint {
  readonly clock: TestClock
  readonly providers: ProvidersInMemory
  readonly doubles: TestDoubles
  readonly entries: readonly TestIssuerEntry[]
  readonly audience: string
  readonly publicUrl: string | undefined
}

/** Where an issuer carries it. Registered, because the app may have the issuer from another copy of this package. */
const kJoint = Symbol.for('holdfast.joint')

const jointOf = (issuer: object): Joint => (issuer as { readonly [kJoint]: Joint })[kJoint]

const LIFETIME_SECONDS = 600

const NO_REVOCATION =
  'No open app with these options knows revocations, so nothing would be refused. Give it the section: ' +
  'app.register(holdfast, { ...idp.options, revocation: {} })'

/**
 * Makes an issuer with a fresh key. Works with every test runner: it registers nothing and needs no end.
 * @example
 * const idp = await createTestIssuer()
 * await app.register(holdfast, { ...idp.options, dpop: { nonce: 'required' } })
 */
export function createTestIssuer (options?: TestIssuerOptions & { readonly beside?: undefined }): Promise<TestIssuer>
export function createTestIssuer (options: TestIssuerOptions): Promise<TestIssuer<JoinedPluginOptions>>
export async function createTestIssuer (
  { beside, ...given }: TestIssuerOptions = {}
): Promise<TestIssuer<TestPluginOptions | JoinedPluginOptions>> {
  const joint = beside ? jointOf(beside) : startJoint()
  const { clock, providers, doubles } = joint
  const { now } = clock
  const number = joint.entries.length + 1
  const {
    issuer = `https://issuer${number === 1 ? '' : `-${number}`}.test/`,
    audience = joint.audience,
    publicUrl = joint.publicUrl
  } = given
  if (joint.entries.some(entry => entry.issuer === issuer)) {
    throw new Error(`There is an issuer ${issuer} already: give the second one another name`)
  }
  const isFirst = number === 1
  const entries = [...joint.entries, {
    issuer,
    audience,
    ...(isFirst && { introspection: { for: 'opaque', ...ASKING_CLIENT } as const })
  }]

  const key = await makeTestKey()
  providers.add(issuer, { keys: [key.jwk] })
  const claimsWith = (claims: TestClaims): TestClaims => ({
    iss: issuer,
    aud: audience,
    sub: 'user-1',
    jti: randomUUID(),
    iat: now(),
    exp: now() + LIFETIME_SECONDS,
    ...claims
  })
  const signed = (claims: TestClaims, by = key): string => by.sign('at+jwt', claimsWith(claims))

  const made: TestIssuer<TestPluginOptions | JoinedPluginOptions> = {
    options: {
      idp: isFirst ? entries[0]! : { issuers: entries },
      server: publicUrl === undefined ? {} : { publicUrl },
      [kTestDoubles]: doubles
    } as TestPluginOptions | JoinedPluginOptions,
    token: async (claims = {}) => signed(claims),
    async opaqueToken (claims = {}) {
      if (!isFirst) {
        throw new Error('Of several issuers, only one can have opaque tokens: here the one that was made first')
      }
      const token = randomBytes(24).toString('base64url')
      providers.know(issuer, token, { token_type: 'Bearer', ...claimsWith(claims) })
      return token
    },
    expiredToken: async (claims = {}) => signed({ iat: now() - 2 * 3600, exp: now() - 3600, ...claims }),
    wrongAudienceToken: async (claims = {}) => signed({ aud: 'https://another-api.test', ...claims }),
    wrongKeyToken: async (claims = {}) => signed(claims, await makeTestKey()),
    dpopClient: async (claims = {}) =>
      createTestClient({ publicUrl, now, tokenFor: jkt => signed({ cnf: { jkt }, ...claims }) }),
    certificateClient: async (claims = {}) =>
      createCertificateClient(thumbprint => signed({ cnf: { 'x5t#S256': thumbprint }, ...claims })),
    async revoke (what) {
      const entriesFor = readRevocation(what)
      if (doubles.revocations.size === 0) throw new Error(NO_REVOCATION)
      await Promise.all(
        [...doubles.revocations].map(({ append, namesOf }) => append(entriesFor({ issuer, now: now(), namesOf })))
      )
    },
    clock
  }
  return Object.defineProperty(made, kJoint, { value: { ...joint, entries, audience, publicUrl } satisfies Joint })
}

/**
 * Makes a transmitter of security events, in memory: `revocation: { transmitters: [transmitter.options] }` beside the
 * options of the issuer has the app accept its events.
 * @param beside the issuer about whose tokens it speaks, and by whose clock it goes
 * @example
 * const transmitter = await createTestTransmitter({ beside: idp })
 * await app.register(holdfast, { ...idp.options, revocation: { transmitters: [transmitter.options] } })
 */
export async function createTestTransmitter (
  { beside, issuer = 'https://transmitter.test' }: TestTransmitterOptions
): Promise<TestTransmitter> {
  const { entries, clock, providers } = jointOf(beside)
  return makeTransmitter({
    issuer,
    tokenIssuers: entries.map(entry => entry.issuer),
    clock,
    providers,
    key: await makeTestKey()
  })
}

function startJoint (): Joint {
  let aheadMs = 0
  const now = (): number => (Date.now() + aheadMs) / 1000
  const clock: TestClock = {
    advance (seconds) {
      aheadMs += seconds * 1000
    },
    now: () => Math.floor(now())
  }
  const providers = createProviders(clock.now)
  const doubles: TestDoubles = {
    surroundings: { ...processSurroundings, now, steadyMs: () => performance.now() + aheadMs },
    transport: providers.transport,
    readCertificate: createCertificateReader({ source: 'client-cert', isTrustedPeer: () => true }),
    revocations: new Set()
  }
  return { clock, providers, doubles, entries: [], audience: 'https://api.test', publicUrl: undefined }
}
