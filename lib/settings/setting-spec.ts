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

export interface SettingSpec {
  /** Path in the configuration file, or null where a setting is read from the environment alone. */
  readonly file: string | null
  readonly schema: ValueSchema | ListSchema
  /** What it is for, in a few words. */
  readonly about: string
  /** The values it takes, in words: for the documentation and for the message about a bad one. */
  readonly allowed: string
  /** A value to show if the schema has no default. A secret has none: whoever copied it would share it with everybody. */
  readonly example?: string | number | boolean | readonly string[]
  /** What holds when it is not set and the schema has no default. */
  readonly unset?: string
  /** Its value is never shown. */
  readonly secret?: true
}

/** The type of a value that a schema lets pass. */
export type ValueOf<S> =
  S extends { enum: readonly (infer E)[] } ? E
    : S extends { type: 'boolean' } ? boolean
      : S extends { type: 'integer' } ? number
        : S extends { type: 'array', items: infer I } ? ReadonlyArray<ValueOf<I>>
          : string

/** What stands for a setting that is not set: nothing, where there is a default. */
export type Presence<S> = S extends { default: unknown } ? never : undefined
