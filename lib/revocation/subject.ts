import { isJsonObject, type JsonObject } from '../base/json.ts'
import { withoutTrailingSlash } from '../guard/provider/provider-url.ts'
import { misunderstood } from './set-error.ts'
import { claimTarget, emailTarget, type RevocationTarget } from './target.ts'

/** How the subjects of one sender of events are found in access tokens. */
export interface SubjectRules {
  /** The sender itself, if its `iss` in a subject means each of `tokenIssuers`. */
  readonly sender?: string
  /** The issuers about whose tokens it may speak. `*` means all. */
  readonly tokenIssuers: readonly string[]
  /** The claims that hold a session in the tokens of an issuer. None if no token has one: then it means its user. */
  readonly sessionClaimsOf: (issuer: string, session: string) => readonly string[]
  /** By the format of a subject, or the member of a complex one: the claim of access tokens that holds it. */
  readonly subjectClaims: Readonly<Record<string, string>>
  /** Members of complex subjects that must be understood (SSF 1.0, `critical_subject_members`). */
  readonly criticalMembers: readonly string[]
  /** Whether a format that is not known is a fault. Otherwise it names nothing here. */
  readonly isStrict?: boolean
}

/** One name in the subject of an event, as what a token can be compared with. */
export interface SubjectPart {
  /**
   * `other`: what else the settings map to a claim, such as tenants and groups. Of an operator: a client, a key or an
   * issuer.
   */
  readonly kind: 'user' | 'session' | 'token' | 'device' | 'other'
  /** Undefined for the session `ALL`, by which Keycloak means every session of the user. */
  readonly target: RevocationTarget | undefined
}

/** The subject of an event: all names that it gives. */
export type Subject = readonly SubjectPart[]

/** Members of complex subjects (SSF 1.0 section 3.2). */
const MEMBERS: readonly string[] = ['user', 'device', 'session', 'application', 'tenant', 'org_unit', 'group']
/** Those that have an effect here without a setting. */
const UNDERSTOOD: readonly string[] = ['user', 'session', 'device']
/** Of one subject. Each may name a token issuer more than once, and all are looked up for each token. */
const MAX_IDENTIFIERS = 100
/**
 * By format (RFC 9493 section 3.2): the member that holds the value, and the claim that holds a user, unless the
 * settings name another.
 */
const FORMATS: Readonly<Record<string, readonly [member: string, claim?: string]>> = Object.freeze({
  account: ['uri'],
  did: ['url'],
  email: ['email', 'email'],
  iss_sub: ['sub', 'sub'],
  jwt_id: ['jti'],
  opaque: ['id', 'sub'],
  phone_number: ['phone_number'],
  uri: ['uri']
})

/**
 * Reads the subject of an event (RFC 9493, SSF 1.0 section 3). Returns undefined if the event has no effect here: it is
 * about an issuer that this sender may not speak for, or has a critical member that is not understood, or no member at
 * all.
 * @param ofSession whether the event is about sessions: then an opaque subject is one, unless the settings map it to a
 * claim
 * @throws SetError
 */
export function readSubject (given: unknown, rules: SubjectRules, ofSession = false): Subject | undefined {
  const subject = objectOf(given, 'the subject')
  const format = formatOf(subject)
  const isSession = ofSession && format === 'opaque' && own(rules.subjectClaims, 'opaque') === undefined
  // A simple subject is a user, or a session, by itself.
  const members: ReadonlyArray<readonly [role: string, member: unknown]> = format === 'complex'
    ? MEMBERS.filter(name => Object.hasOwn(subject, name)).map(name => [name, subject[name]])
    : [[isSession ? 'session' : 'user', subject]]
  // The members of a complex subject share the maximum.
  const identifiers = members.flatMap(([, member]) => isJsonObject(member) ? member.identifiers ?? member : member)
  if ((format === 'complex' || format === 'aliases') && identifiers.length > MAX_IDENTIFIERS) {
    throw misunderstood(`there are more than ${MAX_IDENTIFIERS} identifiers`)
  }
  const { criticalMembers, subjectClaims } = rules
  const isMissed = (name: string) =>
    Object.hasOwn(subject, name) && !UNDERSTOOD.includes(name) && !Object.hasOwn(subjectClaims, name)
  if (members.length === 0 || (format === 'complex' && criticalMembers.some(isMissed))) return undefined
  const parts = members.map(([role, member]) => readSimple(objectOf(member, 'a member of the subject'), role, rules))
  // One member that is about another issuer makes the whole event one about another issuer.
  return parts.every(part => part !== undefined) ? parts.flat() : undefined
}

/** @param name of the value, for the message. @throws SetError */
export function objectOf (value: unknown, name: string): JsonObject {
  if (!isJsonObject(value)) throw misunderstood(`${name} is not an object`)
  return value
}

/** A member that a subject must have. @throws SetError unless it is a text */
export function textOf (subject: JsonObject, member: string): string {
  const value = subject[member]
  if (typeof value !== 'string' || value === '') throw misunderstood(`the subject has no ${member}`)
  return value
}

function formatOf (subject: JsonObject): string {
  // RISC had `subject_type` before there was `format`.
  const { format = subject.subject_type } = subject
  if (typeof format === 'string') return format.replaceAll('-', '_')
  const names = Object.keys(subject)
  if (names.length > 0 && names.every(name => MEMBERS.includes(name))) return 'complex'
  throw misunderstood('the subject has no format')
}

/** @param role the member of a complex subject that this is, or `user` */
function readSimple (subject: JsonObject, role: string, rules: SubjectRules): Subject | undefined {
  const format = formatOf(subject)
  if (format === 'complex') throw misunderstood('a complex subject is inside another one')
  if (format === 'aliases') return readAliases(subject, role, rules)
  const [member, claim] = own(FORMATS, format) ?? []
  if (member === undefined) {
    if (rules.isStrict) throw misunderstood('the format of the subject is not known')
    return []
  }
  const issuers = format === 'iss_sub' || format === 'jwt_id'
    ? issuersOf(textOf(subject, 'iss'), rules)
    : rules.tokenIssuers
  if (issuers === undefined) return undefined
  const value = textOf(subject, member)
  if (format === 'jwt_id') return issuers.map(issuer => ({ kind: 'token', target: ['jti', issuer, value] }))
  const { sessionClaimsOf, subjectClaims } = rules
  if (role === 'session') {
    return value === 'ALL'
      ? [{ kind: role, target: undefined }]
      : issuers.flatMap(issuer =>
        sessionClaimsOf(issuer, value).map(claim => ({ kind: role, target: claimTarget(claim, issuer, value) }))
      )
  }
  const comparedWith = role === 'user' ? own(subjectClaims, format) ?? claim : own(subjectClaims, role)
  if (comparedWith === undefined) return []
  const kind = role === 'user' || role === 'device' ? role : 'other'
  const targetOf = format === 'email' ? emailTarget : claimTarget
  return issuers.map(issuer => ({ kind, target: targetOf(comparedWith, issuer, value) }))
}

/** One of another issuer names nothing here, beside one that does. */
function readAliases ({ identifiers }: JsonObject, role: string, rules: SubjectRules): Subject | undefined {
  if (!Array.isArray(identifiers) || identifiers.length === 0) throw misunderstood('the aliases have no identifiers')
  const parts = identifiers.map(given => {
    const identifier = objectOf(given, 'an identifier')
    if (formatOf(identifier) === 'aliases') throw misunderstood('aliases are inside aliases')
    return readSimple(identifier, role, rules)
  })
  return parts.every(part => part === undefined) ? undefined : parts.flatMap(part => part ?? [])
}

/** The issuers that an `iss` in a subject means, or undefined if the sender may not speak for this one. */
function issuersOf (iss: string, { sender, tokenIssuers }: SubjectRules): readonly string[] | undefined {
  const named = withoutTrailingSlash(iss)
  const spelled = tokenIssuers.filter(issuer => withoutTrailingSlash(issuer) === named)
  if (sender !== undefined && named === withoutTrailingSlash(sender)) return tokenIssuers
  if (tokenIssuers.includes('*')) return [iss]
  return spelled.length > 0 ? spelled : undefined
}

/** A member of a table that is its own. */
export function own<Value> (map: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(map, name) ? map[name] : undefined
}
