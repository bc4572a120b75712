import { isJsonObject, type JsonObject } from '../base/json.ts'
import type { Part } from './setting-spec.ts'
import { isSetting, settingNames, settingSpec, type RawSettings, type SettingName } from './specs.ts'
import { SCHEMA } from './tree.ts'
import { kindOf, quoteJson } from '../base/printable.ts'
import { nameThatWasMeant } from '../base/suggestion.ts'

/** One error of the schema's validator: the members of Ajv's `ErrorObject` that are read. */
export interface SchemaError {
  readonly instancePath: string
  readonly keyword: string
  readonly params: { readonly additionalProperty?: string, readonly missingProperty?: string }
}

/** A part of the settings: how messages name it, what it holds, and its schema. */
interface HeldPart {
  readonly path: string
  readonly value: unknown
  readonly part: Part
}

/**
 * Returns a sentence for each part that the schema refuses, by its path, in the order of the settings: for the deepest
 * part that has words for it.
 * @param values typed as far as their text allows
 * @param unread why secrets could not be read, by the paths of their parts
 */
export function describeRefusals (
  values: RawSettings,
  errors: readonly SchemaError[],
  unread: ReadonlyMap<string, string> = new Map()
): ReadonlyMap<string, string> {
  const refusals = new Map<string, string>()
  const rank = ({ instancePath }: SchemaError) =>
    settingNames.findIndex(name => `${instancePath}/`.startsWith(`/${name.replaceAll('.', '/')}/`))
  for (const { instancePath, keyword, params } of errors.toSorted((a, b) => rank(a) - rank(b))) {
    const held = partAt(values, instancePath.split('/').slice(1))
    const { path, part: { allowed, properties } } = held
    if (keyword === 'additionalProperties') {
      const name = params.additionalProperty!
      // Of a secret, each form that does not fit says so.
      if (properties) refusals.set(`${path}.${name}`, unknownMember(path, name, Object.keys(properties)))
      continue
    }
    // The first error of a part says enough. To show a long list once for each of its entries would take minutes.
    if (refusals.has(path)) continue
    const reason = unread.get(path)
    refusals.set(
      path,
      keyword === 'required'
        ? `${path} lacks ${params.missingProperty}; allowed: ${allowed}`
        : reason === undefined
          ? `${shown(held)}; allowed: ${allowed}`
          : `${partName(path)} is not usable: ${reason}; allowed: ${allowed}`
    )
  }
  return refusals
}

/** The deepest part on the way of these words that has words for what it allows. */
function partAt (values: RawSettings, words: readonly string[]): HeldPart {
  let here: HeldPart = { path: '', value: values, part: SCHEMA }
  let worded = here
  for (const word of words) {
    const { path, value, part } = here
    const next = part.items ?? part.properties?.[word]
    if (!next) break
    // The list of one may be written as that one.
    if (part.items && !Array.isArray(value)) here = { path, value, part: next }
    else {
      here = {
        path: part.items ? `${path}[${word}]` : path === '' ? word : `${path}.${word}`,
        value: (value as Readonly<Record<string, unknown>>)[word],
        part: next
      }
    }
    if (next.allowed !== undefined) worded = here
  }
  return worded
}

/** The rules of the gate name a member by itself. */
function unknownMember (path: string, name: string, known: readonly string[]): string {
  if (name === 'manage' && path.startsWith('revocation')) {
    return `${path}.manage is no setting: \`holdfast stream --ensure\` creates and changes the stream`
  }
  const meant = nameThatWasMeant(name, known)
  if (meant !== undefined) {
    return `${path}.${name} is unknown; did you mean ${path.startsWith('gate.') ? '' : `${path}.`}${meant}?`
  }
  return `${path}.${name} is unknown${path.startsWith('gate') ? `; allowed: ${known.join(', ')}` : ''}`
}

/** The words for a part and what it holds. */
function shown ({ path, value, part }: HeldPart): string {
  const { secret, items, variable } = part
  if (secret) return `${partName(path)} is not usable (its value is not shown)`
  // A list that a variable can hold is shown as there.
  const isTextList = variable !== undefined && items?.type === 'string' && Array.isArray(value) && value.length > 0 &&
    value.every(entry => typeof entry === 'string')
  const held = isTextList ? value.join(' ') : withoutSecrets(part, value)
  return `${partName(path)} is ${held === kindOf(value) ? held ?? 'undefined' : quoteJson(held)}`
}

/**
 * What a part holds, without the secrets in it, and without what may be a misspelt or misplaced one: members of unknown
 * name, and whatever is in a mapping or a list where a text belongs. A list may be missing around its entries, or one
 * too many.
 * @param mark what stands in place of a secret. Where it is (a file, a variable) is shown then, and so is a map, whose
 * members have names of their own
 */
export function withoutSecrets (part: Part, value: unknown, mark?: string): unknown {
  const { secret, items, properties, anyOf, type } = part
  if (secret) return mark === undefined ? undefined : placeIn(value) ?? mark
  if (Array.isArray(value)) {
    const isText = type !== undefined && type !== 'array' && type !== 'object'
    return isText ? kindOf(value) : value.map(item => withoutSecrets(items ?? part, item, mark))
  }
  if (items) return withoutSecrets(items, value, mark)
  if (!isJsonObject(value)) return value
  const isMap = [part, ...anyOf ?? []].some(({ additionalProperties }) => additionalProperties)
  if (isMap && mark !== undefined) return value
  if (!properties) return anyOf && !isMap ? placeIn(value) ?? kindOf(value) : kindOf(value)
  const known = Object.entries(properties).filter(([name]) => Object.hasOwn(value, name))
  return Object.fromEntries(known.map(([name, part]) => [name, withoutSecrets(part, value[name], mark)]))
}

/** Where a secret is, and nothing that stands beside it. Undefined for what names no place. */
function placeIn (value: unknown): object | undefined {
  const name = isJsonObject(value) && ['file', 'env'].find(name => typeof value[name] === 'string')
  return name ? { [name]: (value as JsonObject)[name] } : undefined
}

/** The same for the part at a path such as `idp.issuers[0].algs`. */
export function shownAt (values: RawSettings, path: string): string {
  return shown(partAt(values, path.split(/[.[\]]+/)))
}

/** How messages name a part: a setting as below, any other part by its path. */
export function partName (path: string): string {
  if (isSetting(path)) return nameOf(path)
  const section = path.slice(0, path.lastIndexOf('.'))
  const { variable, short }: Part = isSetting(section) ? settingSpec(section) : {}
  // The variable of a section holds this member of it.
  return short !== undefined && path === `${section}.${short}` ? `${variable} (${path})` : path
}

/** The line for a service that looks for certificates on its sockets and does not end TLS. */
export const NO_TLS_SOCKET =
  `${nameOf('server.clientCertificate')} is "socket", but this server does not end TLS: only an application that ` +
  'does can use it; allowed here: off, client-cert, nginx, xfcc, alb or traefik'

/** How a message names a setting: by its variable, and by its key in the file. */
export function nameOf (name: SettingName): string {
  const { variable, from } = settingSpec(name)
  if (from === 'file') return name
  return from === 'environment' ? variable : `${variable} (${name})`
}
