import { Ajv } from 'ajv'
import type { ErrorObject } from 'ajv'
import { REVOCATION_SCHEMA } from '../revocation/revocation-schema.ts'
import type { LogoutOptions, RevocationOptions, SecretOption, TransmitterOptions } from '../revocation/revocation-options.ts'
import { quoteSetting } from '../printable.ts'
import { nameThatWasMeant } from '../suggestion.ts'
import { FORMATS } from './formats.ts'

type Defaulted<Options, Names extends keyof Options> = Options & { readonly [Name in Names]-?: NonNullable<Options[Name]> }

export type TransmitterSettings = Defaulted<TransmitterOptions, 'sessionClaim' | 'subjectClaims' | 'manage' | 'untyped'>
export type LogoutSettings = Defaulted<LogoutOptions, 'sessionClaim' | 'issuer'>

/** What the section `revocation` of the configuration says, with all defaults. */
export interface RevocationSettings {
  readonly transmitters: readonly TransmitterSettings[]
  readonly logout: readonly LogoutSettings[]
  /** The scope of those who may revoke. Undefined if there are no operators. */
  readonly operatorScope: string | undefined
  readonly retentionSeconds: number
  readonly staleSeconds: number
  readonly outage: 'refuse' | 'serve'
  /** `memory`, or the URL of a Redis. */
  readonly store: string
}

export interface ParsedRevocation {
  /** Only to be used if there is no problem. */
  readonly settings: RevocationSettings
  readonly problems: readonly string[]
}

/** What the section takes from the settings beside it. */
export interface BesideRevocation {
  /** The issuers that the settings name. Undefined if they are not usable. */
  readonly issuers: readonly string[] | undefined
  /** The setting `dpop.replay`. */
  readonly replay: unknown
  readonly publicUrl: unknown
}

/** What the validator reads of a schema for messages. */
interface Worded {
  readonly allowed?: string
  readonly secret?: true
  readonly properties?: Readonly<Record<string, Worded>>
  readonly items?: Worded
}

/**
 * Reads the section `revocation`. It never throws. Each problem names the part, such as `revocation.logout[0].clientId`, what it held,
 * what is allowed, and its place.
 * @param places where the parts are, in words, by their paths
 */
export function parseRevocation (given: unknown, beside: BesideRevocation, places: ReadonlyMap<string, string> = new Map()): ParsedRevocation {
  const section = structuredClone(given) as RevocationOptions
  const problems: string[] = []
  const tell = (path: string, problem: string): void => {
    const place = places.get(path)
    problems.push(`${place === undefined ? '' : `${place}: `}${path}${problem}`)
  }
  const isList = typeof section !== 'object' || section === null || section.logout === undefined || Array.isArray(section.logout)
  if (!isList) (section as { logout: unknown }).logout = [section.logout]
  const ajv = new Ajv({ allErrors: true, useDefaults: true, strict: false, meta: false, validateSchema: false, formats: FORMATS })
  const validate = ajv.compile(REVOCATION_SCHEMA)
  if (!validate(section)) tellErrors(validate.errors!, section, (path, problem) => tell(isList ? path : path.replace('logout[0]', 'logout'), problem))
  const { transmitters = [], logout = [], operators, store, retentionSeconds, staleSeconds, outage } = (problems.length === 0 ? section : {}) as RevocationOptions
  const senders = transmitters as readonly TransmitterSettings[]
  const clients = [logout].flat().map((client, index) => ({ ...client, issuer: issuerOf(client, index) })) as readonly LogoutSettings[]
  senders.forEach((sender, index) => tellLacks(sender, problem => tell(`revocation.transmitters[${index}]`, problem), beside))
  const names = senders.map(({ issuer, metadata }) => issuer ?? metadata)
  names.forEach((name, index) => {
    if (name !== undefined && names.indexOf(name) !== index) tell(`revocation.transmitters[${index}]`, ` is ${quoteSetting(name)}, as revocation.transmitters[${names.indexOf(name)}] is; allowed: each transmitter once`)
  })
  return {
    problems,
    settings: {
      transmitters: senders,
      logout: clients,
      operatorScope: operators?.scope,
      retentionSeconds: retentionSeconds!,
      staleSeconds: staleSeconds!,
      outage: outage!,
      store: store ?? (typeof beside.replay === 'string' && beside.replay !== 'off' ? beside.replay : 'memory')
    }
  }

  function issuerOf ({ issuer }: LogoutOptions, index: number): string | undefined {
    if (issuer !== undefined || beside.issuers === undefined) return issuer
    if (beside.issuers.length === 1) return beside.issuers[0]
    tell(isList ? `revocation.logout[${index}]` : 'revocation.logout', ' names no issuer, and there is not exactly one; set its issuer')
    return undefined
  }
}

function tellLacks (sender: TransmitterSettings, tell: (problem: string) => void, { publicUrl }: BesideRevocation): void {
  const { issuer, metadata, audience, manage, delivery, clientId, clientSecret } = sender
  if (issuer === undefined && metadata === undefined) tell(' names neither issuer nor metadata; allowed: one of them, or both')
  if (audience === undefined && !manage) tell(' has no audience; allowed: the aud of its events, which may be left out only with manage')
  if (manage && (clientId === undefined || clientSecret === undefined)) tell(' has manage, which needs clientId and clientSecret')
  if (manage && delivery === 'push' && publicUrl === undefined) tell(' has manage and push, which need PUBLIC_URL (server.publicUrl): it makes the address for pushes')
}

/** One problem for each part that is wrong, the deepest that the schema knows. */
function tellErrors (errors: readonly ErrorObject[], section: unknown, tell: (path: string, problem: string) => void): void {
  const reported = new Set<string>()
  for (const { instancePath, keyword, params } of errors) {
    const words = instancePath.split('/').slice(1).map(word => word.replaceAll('~1', '/').replaceAll('~0', '~'))
    const { path, value, schema } = partAt(words, section)
    if (keyword === 'additionalProperties') {
      const name = (params as { readonly additionalProperty: string }).additionalProperty
      // Of a secret, each form that does not fit says so.
      if (schema.secret) continue
      const meant = nameThatWasMeant(name, Object.keys(schema.properties!))
      tell(`${path}.${name}`, ` is unknown${meant === undefined ? '' : `; did you mean ${path}.${meant}?`}`)
      continue
    }
    if (reported.has(path)) continue
    reported.add(path)
    const held = keyword === 'required' ? ` lacks ${(params as { readonly missingProperty: string }).missingProperty}` : schema.secret ? ' is not usable (its value is not shown)' : ` is ${quoteSetting(value)}`
    tell(path, `${held}; allowed: ${schema.allowed}`)
  }
}

/** The part of the section at a place, and the schema that has words for it. */
function partAt (words: readonly string[], section: unknown): { path: string, value: unknown, schema: Worded } {
  let path = 'revocation'
  let value = section
  let schema: Worded = REVOCATION_SCHEMA as Worded
  for (const word of words) {
    const next = Array.isArray(value) ? schema.items : schema.properties?.[word]
    // Members of a map, and the forms of a secret: the words are those of the whole.
    if (!next?.allowed) break
    path += Array.isArray(value) ? `[${word}]` : `.${word}`
    value = (value as Record<string, unknown>)[word]
    schema = next
  }
  return { path, value, schema }
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
export const SECRET_PARTS: ReadonlySet<string> = new Set(secretsIn(REVOCATION_SCHEMA))

function secretsIn ({ properties = {}, items }: Worded): string[] {
  const named = Object.entries(properties).flatMap(([name, part]) => part.secret ? [name] : secretsIn(part))
  return items ? [...named, ...secretsIn(items)] : named
}
