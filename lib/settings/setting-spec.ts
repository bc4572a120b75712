import type { FormatName } from './formats.ts'

interface ValueSchema {
  readonly type: 'string' | 'integer' | 'boolean'
  readonly enum?: readonly string[]
  readonly format?: FormatName
  readonly minLength?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly default?: string | number | boolean
}

interface ListSchema {
  readonly type: 'array'
  readonly items: ValueSchema
  readonly minItems?: number
  readonly default?: readonly string[]
}

/** Names with a list for each. It can be written only in the configuration file and in the options of the plugin. */
interface MapSchema {
  readonly type: 'object'
  readonly propertyNames: { readonly format: FormatName }
  readonly additionalProperties: ListSchema
  readonly default?: Readonly<Record<string, readonly string[]>>
}

/**
 * A list of objects. Each member of an object is what another setting describes: the path of the member is that setting's name
 * without its first word, so `audience` belongs to `idp.audience`.
 */
export interface EntriesSchema {
  readonly type: 'entries'
  readonly minItems: number
  readonly maxItems: number
  /** The settings that describe the members. */
  readonly members: readonly string[]
  readonly default?: never
}

/** A section as it was written: its own module judges what is in it. It can be written only in the file and in the options of the plugin. */
interface TreeSchema {
  readonly type: 'tree'
  readonly default?: never
}

export interface SettingSpec {
  /** The variable of the environment that holds it. */
  readonly variable: string
  /** The only source that can hold it: the file (and the options of the plugin), if it has no form as one text, or the environment. */
  readonly from?: 'file' | 'environment'
  readonly schema: ValueSchema | ListSchema | MapSchema | EntriesSchema | TreeSchema
  /** The purpose of the setting, in a few words. */
  readonly about: string
  /** The allowed values, in words: for the documentation and for the message about a bad value. */
  readonly allowed: string
  /** An example value to show if the schema has no default. A secret has none, because everybody who copied it would share it. */
  readonly example?: string | number | boolean | readonly string[] | Readonly<Record<string, unknown>> | ReadonlyArray<Readonly<Record<string, unknown>>>
  /** What happens if it is not set and the schema has no default. */
  readonly unset?: string
  /** Its value is never shown. */
  readonly secret?: true
}

/** Whether an item of such a list is an object, whose members can be judged. */
export function isEntry (item: unknown): item is Readonly<Record<string, unknown>> {
  return typeof item === 'object' && item !== null && !Array.isArray(item)
}

/** The type of a value that a schema lets pass. */
export type ValueOf<S> =
  S extends { enum: readonly (infer E)[] } ? E
    : S extends { type: 'boolean' } ? boolean
      : S extends { type: 'integer' } ? number
        : S extends { type: 'entries' } ? ReadonlyArray<Readonly<Record<string, unknown>>>
          : S extends { type: 'tree' } ? object
            : S extends { type: 'array', items: infer I } ? ReadonlyArray<ValueOf<I>>
              : S extends { type: 'object', additionalProperties: infer V } ? Readonly<Record<string, ValueOf<V>>>
                : string

/** The type of a setting that is not set. A setting with a default is always set. */
export type Presence<S> = S extends { default: unknown } ? never : undefined
