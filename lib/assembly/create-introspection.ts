import { createClientAuthentication, parseClientKey } from '../introspection/client-authentication.ts'
import type { ClientAuthentication, ClientKey } from '../introspection/client-authentication.ts'
import { createEndpointFinder } from '../introspection/endpoint.ts'
import { createIntrospector } from '../introspection/introspector.ts'
import { createSignedAnswerReader } from '../introspection/signed-answer.ts'
import type { KeySource } from '../provider/key-source.ts'
import type { PostingTransport } from '../provider/transport.ts'
import { parseIssuer } from '../provider/provider-url.ts'
import { SettingsError } from '../settings/problems.ts'
import type { IntrospectionSettings, IssuerSettings } from '../settings/issuer-settings.ts'
import type { Surroundings } from '../surroundings.ts'
import { createInquiry } from '../token/inquiry.ts'
import type { TokenIntrospection } from '../token/issuer-table.ts'
import type { TokenRules } from '../token/jwt-checks.ts'
import { createSignerFinder } from '../token/jwt-signature.ts'
import { networkOf } from './network.ts'
import type { ProxySettings } from './network.ts'

export interface IntrospectionParts {
  readonly keys: KeySource
  readonly rules: TokenRules
  readonly surroundings: Surroundings
  /** The default is the network. */
  readonly transport?: PostingTransport | undefined
}

/**
 * Makes what asks the issuer about tokens. Undefined if it is never asked.
 * @throws SettingsError if the private key of this service is missing or is none
 */
export async function createIntrospection ({ issuer, introspection, algs }: IssuerSettings, { keys, rules, surroundings, transport }: IntrospectionParts, proxies: ProxySettings): Promise<TokenIntrospection | undefined> {
  if (!introspection) return undefined
  const { covers, endpoint, cacheSeconds, audienceOptional, signed, clientId } = introspection
  const { wallMs, steadyMs: nowMs } = surroundings
  const now = (): number => wallMs() / 1000
  const introspector = createIntrospector({
    transport: transport ?? networkOf(proxies, true),
    endpoint: createEndpointFinder({ issuer, base: parseIssuer(issuer) }, endpoint, nowMs),
    authenticate: await createAuthentication(issuer, introspection, surroundings),
    readSigned: signed ? createSignedAnswerReader({ issuers: rules.issuers, algs, clientId, keys, findSigner: createSignerFinder(), clockToleranceSeconds: rules.clockToleranceSeconds, now }) : undefined
  })
  return { covers, cacheSeconds, inquiry: createInquiry({ introspector, audienceOptional, cacheSeconds, nowMs, now }) }
}

/**
 * Makes the proof of this service's client at the issuer.
 * @throws SettingsError if the private key of this service is missing or is none
 */
export async function createAuthentication (issuer: string, { auth, clientId, clientSecret, keyFile }: IntrospectionSettings, surroundings: Surroundings): Promise<ClientAuthentication> {
  return createClientAuthentication({
    method: auth,
    clientId,
    clientSecret,
    key: auth === 'private_key_jwt' ? await readClientKey(keyFile!, surroundings) : undefined,
    issuer,
    now: () => surroundings.wallMs() / 1000,
    randomBytes: surroundings.randomBytes
  })
}

const MAX_BYTES = 64 * 1024

async function readClientKey (path: string, { readFile }: Surroundings): Promise<ClientKey> {
  try {
    return parseClientKey(Buffer.from(await readFile(path, MAX_BYTES)).toString('utf8'))
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'not a private key'
    throw new SettingsError([`IDP_CLIENT_KEY_FILE (idp.introspection.keyFile) is ${JSON.stringify(path)}, which is not usable (${code}); allowed: path of a file with a private key`])
  }
}
