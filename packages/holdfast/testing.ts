import { randomBytes, randomUUID } from 'node:crypto'
import { kTestDoubles } from '../../server/surroundings.ts'
import { createCertificateClient } from './testing-certificate.ts'
import { createTestClient } from './testing-client.ts'
import type {
  JoinedPluginOptions,
  TestClaims,
  TestIssuer,
  TestIssuerOptions,
  TestPluginOptions
} from './testing-issuer.ts'
import { jointOf, startJoint, withJoint } from './testing-joint.ts'
import { makeTestKey } from './testing-key.ts'
import { ASKING_CLIENT } from './testing-provider.ts'
import { makeTransmitter, readRevocation, type TestTransmitter } from './testing-revocation.ts'

export type { CertificateClient, CertificateHeaders } from './testing-certificate.ts'
export type { InjectableApp, InjectedRequest, InjectedUrl, ProofHeaders, TestClient } from './testing-client.ts'
export type {
  JoinedPluginOptions,
  TestClaims,
  TestClock,
  TestIntrospection,
  TestIssuer,
  TestIssuerEntry,
  TestIssuerOptions,
  TestPluginOptions,
  TestServerOptions
} from './testing-issuer.ts'
export type { TestRevocation, TestSecurityEvent, TestTransmitter, TestTransmitterEntry } from './testing-revocation.ts'

/** The options of `createTestTransmitter`. */
export interface TestTransmitterOptions {
  /** The issuer about whose tokens it speaks. If that one was made beside another, about the tokens of both. */
  readonly beside: TestIssuer<TestPluginOptions | JoinedPluginOptions>
  /** The URL of the transmitter. Nothing is ever sent to it. Default: `https://transmitter.test`. */
  readonly issuer?: string
}

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
    aud: [audience].flat()[0],
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
  return withJoint(made, { ...joint, entries, audience, publicUrl })
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
