import { quoteSetting } from '../printable.ts'
import { about, FLAG, integer, ISSUER_URL, oneOf, PROVIDER_URL, TEXT } from './setting-spec.ts'
import type { Part, ValueOf } from './setting-spec.ts'

const text = { ...TEXT, allowed: 'any non-empty text' } as const
const filled = { type: 'string', minLength: 1 } as const
const flag = { ...FLAG, default: false } as const
const sessionClaim = { anyOf: [filled, { const: false }], default: 'sid', allowed: 'name of a claim, or false' } as const

/** A secret as text, or where it is: a file (its last line break does not count), or a variable of the environment. */
export const SECRET = {
  allowed: 'a text, { file: PATH } or { env: NAME }',
  secret: true,
  anyOf: [
    filled,
    { type: 'object', required: ['file'], properties: { file: about('path of the file that holds it', filled) }, additionalProperties: false },
    { type: 'object', required: ['env'], properties: { env: about('name of the variable that holds it', filled) }, additionalProperties: false }
  ]
} as const

export const TRANSMITTER = {
  type: 'object',
  allowed: 'an object with issuer or metadata, delivery, and audience unless manage is true',
  required: ['delivery'],
  additionalProperties: false,
  properties: {
    issuer: about('its issuer, under which its configuration is found (SSF 1.0 section 7.2)', ISSUER_URL),
    metadata: about('the address of its configuration, if it is elsewhere', PROVIDER_URL),
    audience: about('the `aud` of its events; with `manage` it may be left out: then it is that of the stream', text),
    delivery: about('how events come: it posts them to `/revocation/events` (RFC 8935), or they are fetched (RFC 8936)', oneOf('push', 'poll')),
    endpoint: about('where events are fetched; without it, where the stream says', PROVIDER_URL),
    tokenIssuers: about('the issuers about whose tokens it may speak; without it, only itself', { type: 'array', minItems: 1, items: ISSUER_URL, allowed: 'list of issuers' }),
    sessionClaim: about('the claim of access tokens that holds the session; `false`: a session means its user', sessionClaim),
    subjectClaims: about('the claim of access tokens that a subject of a format, or a member of a complex subject, is compared with', { type: 'object', additionalProperties: filled, default: {}, allowed: 'map from a format or member of subjects to a claim' }),
    clientId: about('the client as which the stream is managed and polled', text),
    clientSecret: about('the secret of that client', SECRET),
    tokenEndpoint: about('where the client gets its token for the transmitter; without it, by discovery under the issuer', PROVIDER_URL),
    manage: about('whether the stream is created, or found, at the start', flag),
    pushAuthorization: about('the whole value of the Authorization header that each push must have', SECRET),
    untyped: about('whether its events may come without `typ`', flag)
  }
} as const

export const LOGOUT = {
  type: 'object',
  allowed: 'an object with clientId, and issuer if there are several',
  required: ['clientId'],
  additionalProperties: false,
  properties: {
    issuer: about('may be left out if there is one issuer', ISSUER_URL),
    clientId: about('the client whose id is the `aud` of the logout tokens', text),
    sessionClaim: about('the claim of access tokens that holds the session; `false`: they have none', sessionClaim)
  }
} as const

/** The section `revocation`. */
export const REVOCATION = {
  type: 'object',
  whole: 'a section with transmitters, logout or operators: docs/revocation.md',
  additionalProperties: false,
  properties: {
    transmitters: about('Shared Signals transmitters', { type: 'array', minItems: 1, maxItems: 50, items: TRANSMITTER, allowed: 'list of 1 to 50 transmitters' }),
    logout: about('clients for which a provider sends logout tokens (OpenID Connect Back-Channel Logout 1.0)', { type: 'array', alone: true, minItems: 1, maxItems: 50, items: LOGOUT, allowed: 'a client, or a list of 1 to 50' }),
    operators: about('who may revoke by `POST /revocation/subjects`', {
      type: 'object', required: ['scope'], additionalProperties: false, properties: { scope: about('the scope that their tokens need', { type: 'string', format: 'scope', allowed: 'a scope' }) }, allowed: 'an object with scope'
    }),
    retentionSeconds: about('seconds for which cutoffs are kept, and so the longest life of a token', { ...integer(1, 31_536_000), default: 86_400 }),
    staleSeconds: about('seconds for which the store may be silent', { ...integer(1, 300), default: 10 }),
    outage: about('what holds while the store is silent', { ...oneOf('refuse', 'serve'), default: 'refuse' }),
    store: about('`memory`, or the URL of a Redis; the one of `dpop.replay` unless given', { type: 'string', format: 'revocation-store', secret: true, allowed: 'memory, or a redis:// or rediss:// URL' })
  }
} as const

type SecretOption = ValueOf<typeof SECRET>
type RevocationSection = ValueOf<typeof REVOCATION>

export type TransmitterSettings = ValueOf<typeof TRANSMITTER>
export type LogoutSettings = ValueOf<typeof LOGOUT> & { readonly issuer: string }

/** What the section `revocation` of the configuration says, with all defaults. */
export interface RevocationSettings extends Pick<RevocationSection, 'retentionSeconds' | 'staleSeconds' | 'outage'> {
  readonly transmitters: readonly TransmitterSettings[]
  readonly logout: readonly LogoutSettings[]
  /** The scope of those who may revoke. Undefined if there are no operators. */
  readonly operatorScope: string | undefined
  /** `memory`, or the URL of a Redis. */
  readonly store: string
}

/** What the section takes from the settings beside it. */
export interface BesideRevocation {
  /** Undefined if they are not usable. */
  readonly issuers: ReadonlyArray<{ readonly issuer: string }> | undefined
  readonly dpop: { readonly replay: string }
  readonly server: { readonly publicUrl?: string | undefined }
}

/** Completes a section that its schema lets pass, and tells what the schema cannot say, with the path of the part, such as `revocation.logout[0]`. */
export function resolveRevocation ({ transmitters = [], logout = [], operators, store, ...rest }: RevocationSection, beside: BesideRevocation, tell: (path: string, problem: string) => void): RevocationSettings {
  const { issuers, dpop: { replay } } = beside
  const clients = logout.map((client, index) => {
    if (client.issuer === undefined && issuers !== undefined && issuers.length !== 1) tell(`revocation.logout[${index}]`, ' names no issuer, and there is not exactly one; set its issuer')
    return { ...client, issuer: client.issuer ?? issuers?.[0]?.issuer }
  })
  transmitters.forEach((sender, index) => tellLacks(sender, problem => tell(`revocation.transmitters[${index}]`, problem), beside))
  const names = transmitters.map(({ issuer, metadata }) => issuer ?? metadata)
  names.forEach((name, index) => {
    const first = names.indexOf(name)
    if (name !== undefined && first !== index) tell(`revocation.transmitters[${index}]`, ` is ${quoteSetting(name)}, as revocation.transmitters[${first}] is; allowed: each transmitter once`)
  })
  return {
    ...rest,
    transmitters,
    logout: clients as LogoutSettings[],
    operatorScope: operators?.scope,
    store: store ?? (replay === 'off' ? 'memory' : replay)
  }
}

function tellLacks (sender: TransmitterSettings, tell: (problem: string) => void, { server: { publicUrl } }: BesideRevocation): void {
  const { issuer, metadata, audience, manage, delivery, clientId, clientSecret } = sender
  if (issuer === undefined && metadata === undefined) tell(' names neither issuer nor metadata; allowed: one of them, or both')
  if (audience === undefined && !manage) tell(' has no audience; allowed: the aud of its events, which may be left out only with manage')
  if (manage && (clientId === undefined || clientSecret === undefined)) tell(' has manage, which needs clientId and clientSecret')
  if (manage && delivery === 'push' && publicUrl === undefined) tell(' has manage and push, which need PUBLIC_URL (server.publicUrl): it makes the address for pushes')
}

/**
 * The text of a secret.
 * @throws Error that says what is wrong, without any of the text
 */
export async function readSecret (secret: SecretOption, { readFile, environment }: { readonly readFile: (path: string, maxBytes: number) => Promise<Uint8Array>, readonly environment: (name: string) => string | undefined }): Promise<string> {
  if (typeof secret === 'string') return secret
  const text = 'env' in secret ? environment(secret.env) : Buffer.from(await readFile(secret.file, 16 * 1024)).toString('utf8').replace(/\r?\n$/, '')
  if (text === undefined || text === '') throw new Error('env' in secret ? `the variable ${secret.env} is not set` : `the file ${secret.file} is empty`)
  return text
}

/** The names of the parts of the section that may hold a secret. */
export const SECRET_PARTS: ReadonlySet<string> = new Set(secretsIn(REVOCATION))

function secretsIn ({ properties = {}, items }: Part): string[] {
  const named = Object.entries(properties).flatMap(([name, part]) => part.secret ? [name] : secretsIn(part))
  return items ? [...named, ...secretsIn(items)] : named
}
