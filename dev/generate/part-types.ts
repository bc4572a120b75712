import { JWS_ALGS } from '../../lib/guard/jose/signature.ts'
import { LOGOUT, RULE, SECRET, SECRET_PLACE, TRANSMITTER } from '../../lib/settings/section-specs.ts'
import type { Part } from '../../lib/settings/setting-spec.ts'
import { SETTINGS } from '../../lib/settings/specs.ts'
import { defaultOf, sentence } from './docstrings.ts'

/** A section, and a type used in several places, has a name, so that applications can name it too. */
const PARTS: ReadonlyArray<readonly [about: string, name: string, part: Part]> = [
  ['One entry of `gate.rules`: the requests that it is for, and what they need.', 'GateRuleOptions', RULE],
  ['`mcp` of a rule.', 'McpTargetOptions', RULE.properties.mcp],
  ['The section `gate`.', 'GateOptions', SETTINGS.gate],
  ['The section `audit`.', 'AuditOptions', SETTINGS.audit],
  [
    'A secret as text, or where it is: a file (its last line break does not count), or a variable of the environment.',
    'SecretOption',
    SECRET
  ],
  ['Where a secret is.', 'SecretPlace', SECRET_PLACE],
  ['A transmitter of the Shared Signals Framework.', 'TransmitterOptions', TRANSMITTER],
  ['A client of a provider that sends logout tokens.', 'LogoutOptions', LOGOUT],
  ['The section `revocation`.', 'RevocationOptions', SETTINGS.revocation]
]

const NAMES: ReadonlyMap<unknown, string> = new Map(
  PARTS.map(([, name, part]) => [part.properties ?? part.anyOf, name])
)

/** The declarations of the types with a name. */
export function namedTypes (): string {
  return PARTS.map(([about, name, part]) => {
    if (part.anyOf) return `/** ${about} */\nexport type ${name} = ${bareType(part)}`
    const { optional, needed } = partMembers(part)
    const base = optional && ` extends Optional<{\n${optional}\n}>`
    return `/** ${about} */\nexport interface ${name}${base} {${needed && `\n${needed}\n`}}`
  }).join('\n\n')
}

/** The type of a part, as its schema says it. */
export function partType (part: Part, indent = ''): string {
  if (part.placed) {
    const forms = (part.anyOf ?? []).filter(({ properties }) => properties)
    return ['SecretOption', ...forms.map(form => bareType(form, indent))]
      .join(' | ')
  }
  return NAMES.get(part.properties ?? part.anyOf) ?? bareType(part, indent)
}

function bareType (part: Part, indent = ''): string {
  const { written, type, enum: words, const: value, anyOf, items, alone, properties, additionalProperties } = part
  if (written !== undefined) return written
  if (words === JWS_ALGS) return 'JwsAlg'
  if (words) return quoted(words)
  if (value !== undefined) return String(value)
  if (anyOf) return anyOf.map(form => partType(form, indent)).join(' | ')
  if (items) {
    return `${alone && (items.properties ?? items.anyOf) ? `${partType(items)} | ` : ''}${listOf(partType(items))}`
  }
  if (properties) {
    const { optional, needed } = partMembers(part, `${indent}  `)
    const forms = [needed && `{\n${needed}\n${indent}}`, optional && `Optional<{\n${optional}\n${indent}}>`]
    return forms.filter(Boolean).join(' & ')
  }
  if (additionalProperties) return `Readonly<Record<string, ${partType(additionalProperties)}>>`
  return type === 'integer' ? 'number' : type!
}

/** The members of a section with parts: those that may be left out, as `Optional` takes them, and the others. */
function partMembers (
  { properties = {}, required = [] }: Part,
  indent = '  '
): { readonly optional: string, readonly needed: string } {
  // The reader of paths says itself that one is missing.
  const isNeeded = ([key, part]: readonly [string, Part]) =>
    required.includes(key) || part === RULE.properties.path
  const written = (member: readonly [string, Part], modifier: string) => {
    const [key, part] = member
    const byDefault = part.default === undefined ? '' : ` Default: ${defaultOf(part.default)}.`
    return `${indent}/** ${sentence(part.about!)}.${byDefault} */\n` +
      `${indent}${modifier}${key}: ${partType(part, indent)}`
  }
  const members = Object.entries(properties)
  return {
    optional: members.filter(member => !isNeeded(member)).map(member => written(member, '')).join('\n'),
    needed: members.filter(isNeeded).map(member => written(member, 'readonly ')).join('\n')
  }
}

const quoted = (words: readonly string[]) => words.map(word => `'${word}'`).join(' | ')
export const listOf = (type: string) => type.includes('|') ? `ReadonlyArray<${type}>` : `readonly ${type}[]`
