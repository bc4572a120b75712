import { isJsonObject } from '../jose/jws.ts'
import type { JsonObject } from '../jose/jws.ts'
import { withoutTrailingSlash } from '../provider/provider-url.ts'
import type { RevocationTarget } from './entry.ts'

/** How the subjects of one sender of events are found in access tokens. */
export interface SubjectRules {
  /** The sender itself. Its `iss` in a subject stands for each of `tokenIssuers`. */
  readonly sender: string
  /** The issuers about whose tokens it may speak. `*` stands for all. */
  readonly tokenIssuers: readonly string[]
  /** The claim that holds the session. False if no token has one: then a session means its user. */
  readonly sessionClaim: string | false
  /** By the format of a subject, or the member of a complex one: the claim of access tokens that holds it. */
  readonly subjectClaims: Readonly<Record<string, string>>
  /** Members of complex subjects that must be understood (SSF 1.0, `critical_subject_members`). */
  readonly criticalMembers: readonly string[]
}

/** The subject of an event, as what a token can be compared with. */
export interface Subject {
  /** The user, by all names that are given. */
  readonly user: readonly RevocationTarget[]
  readonly session: readonly RevocationTarget[]
  readonly token: readonly RevocationTarget[]
  readonly device: readonly RevocationTarget[]
  /** What else the settings map to a claim: tenants, groups, phone numbers. */
  readonly other: readonly RevocationTarget[]
  /** Whether every session of the user is meant: Keycloak sends `ALL`. */
  readonly isAllSessions: boolean
}

/** Why a subject cannot be read. The event is at fault (RFC 8935 section 2.4, `invalid_request`). */
export class SubjectError extends Error {
  override readonly name = 'SubjectError'
}

/** Members of complex subjects (SSF 1.0 section 3.2). */
const MEMBERS: readonly string[] = ['user', 'device', 'session', 'application', 'tenant', 'org_unit', 'group']
/** Of one subject. Each may name a token issuer more than once, and all are looked up for each token. */
const MAX_IDENTIFIERS = 100

const NONE: Subject = Object.freeze({ user: [], session: [], token: [], device: [], other: [], isAllSessions: false })

/**
 * Reads the subject of an event (RFC 9493, SSF 1.0 section 3). Undefined if the event is without effect here: it is about an issuer that
 * this sender may not speak for, or has a critical member that is not understood, or no member at all.
 * @param ofSession whether the event is about sessions: then an opaque subject is one, unless the settings map it to a claim
 * @throws SubjectError
 */
export function readSubject (subject: unknown, rules: SubjectRules, ofSession = false): Subject | undefined {
  if (!isJsonObject(subject)) throw new SubjectError('the subject is not an object')
  const format = formatOf(subject)
  const isSession = ofSession && format === 'opaque' && own(rules.subjectClaims, 'opaque') === undefined
  if (format !== 'complex') return readSimple(subject, format, isSession ? 'session' : 'user', rules)
  const members = MEMBERS.filter(name => Object.hasOwn(subject, name))
  verifyIdentifierCount(members.map(name => subject[name]))
  if (members.length === 0 || rules.criticalMembers.some(name => Object.hasOwn(subject, name) && !isUnderstood(name, rules))) return undefined
  const parts = members.map(name => {
    const member = subject[name]
    if (!isJsonObject(member)) throw new SubjectError('a member of the subject is not an object')
    return readSimple(member, formatOf(member), name, rules)
  })
  // One member that is about another issuer makes the whole event one about another issuer.
  return parts.every(part => part !== undefined) ? parts.reduce(join, NONE) : undefined
}

/** Whether a member of complex subjects has an effect here. */
export function isUnderstood (member: string, { subjectClaims }: Pick<SubjectRules, 'subjectClaims'>): boolean {
  return ['user', 'session', 'device'].includes(member) || Object.hasOwn(subjectClaims, member)
}

function formatOf (subject: JsonObject): string {
  // RISC had `subject_type` before there was `format`.
  const { format = subject.subject_type } = subject
  if (typeof format === 'string') return format.replaceAll('-', '_')
  const names = Object.keys(subject)
  if (format === undefined && names.length > 0 && names.every(name => MEMBERS.includes(name))) return 'complex'
  throw new SubjectError('the subject has no format')
}

/** @param role the member of a complex subject that this is, or `user` */
function readSimple (subject: JsonObject, format: string, role: string, rules: SubjectRules): Subject | undefined {
  if (format === 'complex') throw new SubjectError('a complex subject stands inside of another one')
  if (format === 'aliases') return readAliases(subject, role, rules)
  const { sender, tokenIssuers, sessionClaim, subjectClaims } = rules

  if (format === 'iss_sub' || format === 'jwt_id') {
    const issuers = issuersOf(text(subject, 'iss'), sender, tokenIssuers)
    if (issuers === undefined) return undefined
    if (format === 'jwt_id') {
      const jti = text(subject, 'jti')
      return { ...NONE, token: issuers.map(issuer => ['jti', issuer, jti] as const) }
    }
    return place(text(subject, 'sub'), issuers)
  }
  const member = VALUE_OF[format]
  return member === undefined ? NONE : place(text(subject, member), tokenIssuers)

  function place (value: string, issuers: readonly string[]): Subject {
    if (role === 'session') {
      if (value === 'ALL') return { ...NONE, isAllSessions: true }
      return sessionClaim === false ? NONE : { ...NONE, session: issuers.map(issuer => ['sid', issuer, value] as const) }
    }
    if (role !== 'user') {
      const claim = own(subjectClaims, role)
      const targets = claim === undefined ? [] : issuers.map(issuer => ['claim', issuer, claim, value] as const)
      return { ...NONE, [role === 'device' ? 'device' : 'other']: targets }
    }
    const claim = own(subjectClaims, format) ?? DEFAULT_CLAIMS[format]
    if (claim === undefined) return NONE
    return { ...NONE, user: issuers.map(issuer => claim === 'sub' ? ['sub', issuer, value] as const : ['claim', issuer, claim, normalized(claim, value)] as const) }
  }
}

/** The claims that hold a user, unless the settings name others. */
const DEFAULT_CLAIMS: Readonly<Record<string, string | undefined>> = Object.freeze({ iss_sub: 'sub', opaque: 'sub', email: 'email' })

/** The member that holds the value, by format (RFC 9493 section 3.2). */
const VALUE_OF: Readonly<Record<string, string | undefined>> = Object.freeze({
  account: 'uri', did: 'url', email: 'email', opaque: 'id', phone_number: 'phone_number', uri: 'uri'
})

/** The value of a claim as it is compared: mail programs see no difference of case in an address. */
export function normalized (claim: string, value: string): string {
  return claim === 'email' ? value.toLowerCase() : value
}

function readAliases ({ identifiers }: JsonObject, role: string, rules: SubjectRules): Subject {
  if (!Array.isArray(identifiers) || identifiers.length === 0) throw new SubjectError('the aliases have no identifiers')
  verifyIdentifierCount([{ identifiers }])
  return identifiers.map(identifier => {
    if (!isJsonObject(identifier)) throw new SubjectError('an identifier is not an object')
    const format = formatOf(identifier)
    if (format === 'aliases') throw new SubjectError('aliases stand inside of aliases')
    return readSimple(identifier, format, role, rules) ?? NONE
  }).reduce(join, NONE)
}

/** @param subjects the subject, or the members of a complex one, which share the maximum */
function verifyIdentifierCount (subjects: readonly unknown[]): void {
  const lengths = subjects.map(subject => isJsonObject(subject) && Array.isArray(subject.identifiers) ? subject.identifiers.length : 1)
  if (lengths.reduce((sum, length) => sum + length, 0) > MAX_IDENTIFIERS) throw new SubjectError(`there are more than ${MAX_IDENTIFIERS} identifiers`)
}

/** Undefined if the sender may not speak for this issuer. */
function issuersOf (iss: string, sender: string, tokenIssuers: readonly string[]): readonly string[] | undefined {
  const named = withoutTrailingSlash(iss)
  const own = tokenIssuers.filter(issuer => withoutTrailingSlash(issuer) === named)
  if (named === withoutTrailingSlash(sender)) return tokenIssuers
  if (tokenIssuers.includes('*')) return [iss]
  return own.length > 0 ? own : undefined
}

function join (a: Subject, b: Subject): Subject {
  return {
    user: [...a.user, ...b.user],
    session: [...a.session, ...b.session],
    token: [...a.token, ...b.token],
    device: [...a.device, ...b.device],
    other: [...a.other, ...b.other],
    isAllSessions: a.isAllSessions || b.isAllSessions
  }
}

function text (subject: JsonObject, member: string): string {
  const value = subject[member]
  if (typeof value !== 'string' || value === '') throw new SubjectError(`the subject has no ${member}`)
  return value
}

function own (map: Readonly<Record<string, string>>, name: string): string | undefined {
  return Object.hasOwn(map, name) ? map[name] : undefined
}
