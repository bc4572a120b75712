import type { FormatName } from './formats.ts'

/** A part of the settings: a JSON schema with the words that belong to it. */
export interface Part {
  readonly type?: 'string' | 'integer' | 'boolean' | 'array' | 'object'
  readonly enum?: readonly string[]
  readonly const?: false
  readonly format?: FormatName
  readonly pattern?: string
  readonly minLength?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly items?: Part
  readonly minItems?: number
  readonly maxItems?: number
  readonly uniqueItems?: true
  readonly properties?: Readonly<Record<string, Part>>
  readonly required?: readonly string[]
  readonly propertyNames?: Part
  /** The values of a map. False in an object with `properties`: it has no others. */
  readonly additionalProperties?: Part | false
  readonly anyOf?: readonly Part[]
  readonly default?: unknown
  /** In TypeScript, the type of a part that no schema judges. */
  readonly written?: string
  /** A text, or each of a list of texts, may also be where it is: `{ file }` or `{ env }`. Then it is read first. */
  readonly placed?: true
  /** A list of one may be written as that one. */
  readonly alone?: true
  /** In the environment, a list is separated by blanks alone. In the file, a text with blanks is one. */
  readonly blanks?: true
  /** The member as which a section may be written that has no other. */
  readonly short?: string
  /** In a section with parts: a text of digits counts as a number, and a number as a text. Elsewhere they always do. */
  readonly digits?: true
  /** The variable of the environment that holds a setting. */
  readonly variable?: string
  /** The purpose, in a few words. */
  readonly about?: string
  /** The allowed values, in words: for the documentation and for the message about a bad value. */
  readonly allowed?: string
  /** Its value is never shown. */
  readonly secret?: true
}

/** A setting: a part with a place of its own in every source. */
export interface SettingSpec extends Part {
  readonly variable: string
  /**
   * The only source that can hold it: the file (and the options of the plugin), if it has no form as one text, or the
   * environment.
   */
  readonly from?: 'file' | 'environment'
  readonly about: string
  readonly allowed: string
  /** An entry of `idp.issuers` may have it too. */
  readonly perIssuer?: true
  /** Only the whole service reads it. The plugin takes it, so that one object fits both. */
  readonly serviceOnly?: true
  /**
   * An example value to show if the schema has no default. A secret has none, because everybody who copied it would
   * share it.
   */
  readonly example?: unknown
  /** What happens if it is not set and the schema has no default. */
  readonly unset?: string
}

/** No character that an editor or a second line of a file has left: nothing would fit it. */
export const PLAIN = { type: 'string', minLength: 1, pattern: '^\\P{Cc}*$' } as const
export const TEXT = { ...PLAIN, allowed: 'any non-empty string' } as const
export const FILE = { ...TEXT, allowed: 'path of a file' } as const
export const FLAG = { type: 'boolean', allowed: 'true or false' } as const
export const PROVIDER_URL = text('provider-url', 'https URL (http for a loopback host) without user info')
/** The address of an issuer, or the identifier of a resource. */
export const SAFE_URL = text('safe-url', `${PROVIDER_URL.allowed}, query or fragment`)
export const ISSUER_NAME = text(
  'issuer-name',
  'https URL (http for a loopback host, or beside an https jwksUri or a keysFile) without user info, query or fragment'
)
export const UPSTREAM = text('gate-upstream', 'http or https URL of a host, with a port or without, and nothing more')

export function integer (minimum: number, maximum: number) {
  return {
    type: 'integer',
    minimum,
    maximum,
    allowed: `integer, ${minimum} ${maximum === Number.MAX_SAFE_INTEGER ? 'or more' : `to ${maximum}`}`
  } as const
}

/** One of these words. */
export function oneOf<const Words extends readonly string[]> (...words: Words) {
  return { type: 'string', enum: words, allowed: `${words.slice(0, -1).join(', ')} or ${words.at(-1)}` } as const
}

/** A list of these words. */
export function listOf<const Words extends readonly string[]> (words: Words) {
  return {
    type: 'array',
    minItems: 1,
    items: { type: 'string', enum: words },
    allowed: `list of ${words.join(', ')}`
  } as const
}

/** A text in a format, with the allowed values in words. */
export function text<Format extends FormatName> (format: Format, allowed: string) {
  return { type: 'string', format, allowed } as const
}

/** A list of texts in a format. */
export function list<Format extends FormatName> (format: Format, allowed: string) {
  return { type: 'array', minItems: 1, items: { type: 'string', format }, allowed } as const
}

/** In words, what a secret may be in place of its text. */
export const OR_PLACE = 'in the file also { file: PATH } or { env: NAME }'

/** The type of a value that a schema lets pass. */
export type ValueOf<S> = S extends { enum: readonly (infer E)[] } ? E
  : S extends { const: infer C } ? C
    : S extends { anyOf: readonly (infer A)[] } ? A extends unknown ? ValueOf<A> : never
      : S extends { type: 'boolean' } ? boolean
        : S extends { type: 'integer' } ? number
          : S extends { type: 'string' } ? string
            : S extends { type: 'array', items: infer I } ? ReadonlyArray<ValueOf<I>>
              : S extends { properties: infer P } ? MembersOf<P, S>
                : S extends { additionalProperties: infer V } ? Readonly<Record<string, ValueOf<V>>>
                  : unknown

type NamesOfSet<P, S> = {
  [Name in keyof P]: P[Name] extends { default: unknown } ? Name
    : S extends { required: readonly (infer R)[] } ? Name extends R ? Name : never
      : never
}[keyof P]
type MembersOf<P, S> =
  & { readonly [Name in NamesOfSet<P, S>]: ValueOf<P[Name]> }
  & { readonly [Name in Exclude<keyof P, NamesOfSet<P, S>>]?: ValueOf<P[Name]> }

/** The type of a setting that is not set. A setting with a default is always set. */
export type Presence<S> = S extends { default: unknown } ? never : undefined
