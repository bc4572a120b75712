import type { ArgumentOption } from '../gate/arguments.ts'
import type { ClaimValue } from '../guard/requirement/requirement.ts'
import type { AUDIT, GATE, LOGOUT, REVOCATION, RULE, SECRET, SECRET_PLACE, TRANSMITTER } from './section-specs.ts'
import type { AfterWord, FirstWord, SettingName, SETTINGS } from './specs.ts'

// The types of options, as the tables of settings give them. The package gets declarations with a docstring for each
// member in their place, which dev/generate writes from the same tables when it is built.

/** Any text, as a variable holds it. An editor still proposes the words beside it. */
type Text = string & {}

/** The types that the tables name because no schema judges the part. */
interface Written {
  readonly string: string
  readonly number: number
  readonly 'string | readonly string[]': string | readonly string[]
  readonly 'readonly string[] | Readonly<Record<string, string>>': readonly string[] | Readonly<Record<string, string>>
  readonly 'Readonly<Record<string, ClaimValue | readonly ClaimValue[]>>': Readonly<
    Record<string, ClaimValue | readonly ClaimValue[]>
  >
  readonly 'Readonly<Record<string, ArgumentOption>>': Readonly<Record<string, ArgumentOption>>
}

/** What a part of the settings may be given as in code. */
type OptionOf<P> = P extends { written: infer W } ? Written[W & keyof Written]
  : P extends { enum: readonly (infer W)[] } ? W | (W extends `${infer N extends number}` ? N : never)
    : P extends { const: infer C } ? C
      : P extends { anyOf: readonly (infer F)[] } ? OptionOf<F>
        : P extends { format: 'trusted-peer' } ? boolean | string
          : P extends { format: 'rate-limit' } ? 'off' | number
            : P extends { type: 'boolean' } ? boolean
              : P extends { type: 'integer' } ? number
                : P extends { type: 'string' } ? string
                  : P extends { items: infer I } ? OptionOf<I> | ReadonlyArray<OptionOf<I>>
                    : P extends { properties: infer M } ? MembersOf<M, P> | ShortOf<P>
                      : P extends { additionalProperties: infer V } ? Readonly<Record<string, OptionOf<V>>> : unknown

type ShortOf<P> = P extends { short: string } ? string : never

/** The reader of paths says itself that one is missing. */
type NeededOf<M, P> =
  & keyof M
  & ((P extends { required: readonly (infer R)[] } ? R : never) | (M extends { mcp: unknown } ? 'path' : never))

type MembersOf<M, P> =
  & { readonly [K in NeededOf<M, P>]: OptionOf<M[K]> }
  & { readonly [K in Exclude<keyof M, NeededOf<M, P>>]?: OptionOf<M[K]> | undefined }

type NamesWith<Flag> = { [N in SettingName]: (typeof SETTINGS)[N] extends Flag ? N : never }[SettingName]

/** One setting. A text, or each of a list of texts, may also be where it is. */
type SettingOption<Name extends SettingName> = Name extends 'idp.issuers' ? readonly IssuerOptions[] | IssuerLookup
  : (typeof SETTINGS)[Name] extends { placed: true, type: 'array' } ? SecretOption | readonly SecretOption[]
      : (typeof SETTINGS)[Name] extends { placed: true } ? SecretOption
          : OptionOf<(typeof SETTINGS)[Name]>

/** Settings as they are nested. */
type Nested<Name extends string, Path extends string> = {
  readonly [Word in FirstWord<Name> & string]?:
    | (Word extends Name ? SettingOption<`${Path}${Word}` & SettingName>
      : Nested<AfterWord<Name, Word>, `${Path}${Word}.`>)
    | undefined
}

/** One issuer of several. What it leaves out is taken from the option of that name beside the list. */
export type IssuerOptions = Nested<AfterWord<NamesWith<{ perIssuer: true }>, 'idp'>, 'idp.'>
/** How tokens are introspected at the provider (RFC 7662). */
export type IntrospectionOptions = NonNullable<IssuerOptions['introspection']>
/**
 * A function of the application that names the issuers, for example one for each tenant. It gets the `iss` of a token
 * that is not verified yet, and answers with the options of that issuer, or with undefined if tokens of that issuer do
 * not pass.
 */
export type IssuerLookup = (iss: string) => Promise<IssuerOptions | undefined> | IssuerOptions | undefined

export type GateRuleOptions = OptionOf<typeof RULE>
export type McpTargetOptions = OptionOf<typeof RULE.properties.mcp>
export type GateOptions = OptionOf<typeof GATE>
export type AuditOptions = Exclude<OptionOf<typeof AUDIT>, string>
export type SecretOption = OptionOf<typeof SECRET>
export type SecretPlace = OptionOf<typeof SECRET_PLACE>
export type TransmitterOptions = OptionOf<typeof TRANSMITTER>
export type LogoutOptions = OptionOf<typeof LOGOUT>
export type RevocationOptions = OptionOf<typeof REVOCATION>

type OfVariables = NamesWith<{ from: 'environment' }>
type OfFile = Exclude<SettingName, OfVariables>

/** Options in the shape of the configuration file. What goes with a function is no setting: a file cannot hold it. */
export type FileOptions =
  & Nested<OfFile, ''>
  & { readonly idp?: { readonly maxIssuers?: number | undefined } | undefined }

/** Options under the names of the environment. What is written as text there may be written as the value too. */
export type EnvironmentOptions = {
  readonly [Name in Exclude<SettingName, NamesWith<{ from: 'file' }>> as (typeof SETTINGS)[Name]['variable']]?:
    | SettingOption<Name>
    | Text
    | undefined
}

type None<T> = { readonly [K in keyof T]?: never }

/** Those that no section has, such as proxies. */
type VariableOptions = Pick<EnvironmentOptions, (typeof SETTINGS)[OfVariables]['variable']>

/** Options in one of the two forms, never both. */
export type HoldfastOptions =
  | (FileOptions & VariableOptions & None<Omit<EnvironmentOptions, keyof VariableOptions>>)
  | (EnvironmentOptions & None<FileOptions>)
