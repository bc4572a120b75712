import { isJsonObject } from '../json.ts'
import type { JsonObject } from '../json.ts'
import { withoutTrailingSlash } from '../provider/provider-url.ts'
import { entriesOf } from './effects.ts'
import type { RevocationEntry } from './log.ts'
import { objectOf, readSubject, SubjectError, targetsIn, textOf } from './subject.ts'
import type { Subject } from './subject.ts'
import type { ClaimNamesOf } from './target.ts'

export interface OperatorRequest {
  /** The body: `sub_id` or `subject`, and `undo`. */
  readonly body: unknown
  /** The `sub` of the operator. */
  readonly operator: string
  /** The issuer of the operator's own token. */
  readonly issuer: string
  /** Other issuers that operators act for. `*` means all. */
  readonly others: readonly string[]
  /** The issuers that the settings name. */
  readonly known: readonly string[]
  /** What holds sessions in the tokens of an issuer, and of `*`: of any. */
  readonly namesOf: ClaimNamesOf
  /** Unix seconds. */
  readonly now: number
}

/** Thrown if an operator names what it may not act for. */
export class OperatorError extends Error {
  override readonly name = 'OperatorError'
}

/**
 * What an operator revokes, or gives back. Empty for a subject that no token can have. A subject that names no issuer,
 * such as an address, is one at each issuer that the operator acts for.
 * @throws SubjectError, OperatorError
 */
export function operatorEntries (
  { body, operator, issuer, others, known, namesOf, now }: OperatorRequest
): readonly RevocationEntry[] {
  const request = objectOf(body, 'the body')
  const { sub_id: subject = request.subject, undo = false } = request
  if (typeof undo !== 'boolean') throw new SubjectError('undo is neither true nor false')
  if (!isJsonObject(subject)) throw new SubjectError('the body has no sub_id')
  const isForAll = others.includes('*')
  // Entries of event senders have an issuer in their keys, so an undo names each issuer too.
  const issuers = isForAll ? ['*', ...undo ? known : []] : [issuer, ...others]
  const named = readNamed(subject, issuers, namesOf)
  verifyRight(subject, isForAll ? undefined : issuers)
  const facts = { at: now, now, event: 'operator', sender: issuer, operator }
  if (undo) return entriesOf('undo', targetsIn(named, 'user', 'session', 'token', 'other'), facts)
  // A session or a token of a user is less than the user.
  const ended = targetsIn(named, 'session', 'token')
  return ended.length > 0
    ? entriesOf('end', ended, facts)
    : entriesOf('cutoff', targetsIn(named, 'user', 'other'), facts)
}

function readNamed (subject: JsonObject, tokenIssuers: readonly string[], namesOf: ClaimNamesOf): Subject {
  // The formats beside those of RFC 9493: a client, a key, an issuer as a whole.
  switch (subject.format) {
    case 'client':
      return [{ kind: 'other', target: ['client', textOf(subject, 'iss'), textOf(subject, 'client_id')] }]
    case 'jkt':
      return [{ kind: 'other', target: ['jkt', textOf(subject, 'jkt')] }]
    case 'issuer':
      return [{ kind: 'other', target: ['issuer', textOf(subject, 'iss')] }]
  }
  return readSubject(subject, {
    sender: '',
    tokenIssuers,
    sessionClaimsOf: issuer => namesOf(issuer).session,
    subjectClaims: {},
    criticalMembers: [],
    isStrict: true
  }, true) ?? []
}

/** @param issuers undefined: all. @throws OperatorError */
function verifyRight (subject: JsonObject, issuers: readonly string[] | undefined): void {
  if (!issuers) return
  if (subject.format === 'jkt') {
    throw new OperatorError('A key may have tokens of any issuer, and this operator may not act for all of them.')
  }
  const spelled = new Set(issuers.map(withoutTrailingSlash))
  if (issuersIn(subject).some(iss => !spelled.has(withoutTrailingSlash(iss)))) {
    throw new OperatorError('This operator may not act for the issuer of the subject.')
  }
}

/** All issuers that a subject names, at any depth. */
function issuersIn (value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(issuersIn)
  if (!isJsonObject(value)) return []
  return Object.entries(value).flatMap(([name, member]) =>
    name === 'iss' && typeof member === 'string' ? [member] : issuersIn(member)
  )
}
