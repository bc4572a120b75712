import { isJsonObject } from '../jose/jws.ts'
import type { JsonObject } from '../jose/jws.ts'
import { entriesOf } from './effects.ts'
import type { RevocationEntry } from './log.ts'
import { objectOf, readSubject, SubjectError, targetsIn, textOf } from './subject.ts'
import type { Subject } from './subject.ts'

export interface OperatorRequest {
  /** The body: `sub_id` or `subject`, and `undo`. */
  readonly body: unknown
  /** The `sub` of the operator. */
  readonly operator: string
  /** The issuer of the operator's own token. */
  readonly issuer: string
  /** The issuers that the settings name. */
  readonly issuers: readonly string[]
  /** Unix seconds. */
  readonly now: number
}

/**
 * What an operator revokes, or gives back. Empty for a subject that no token can have.
 * @throws SubjectError
 */
export function operatorEntries ({ body, operator, issuer, issuers, now }: OperatorRequest): readonly RevocationEntry[] {
  const request = objectOf(body, 'the body')
  const { sub_id: subject = request.subject, undo = false } = request
  if (typeof undo !== 'boolean') throw new SubjectError('undo is neither true nor false')
  if (!isJsonObject(subject)) throw new SubjectError('the body has no sub_id')
  // Entries of event senders have an issuer in their keys, so an undo names each issuer too.
  const named = readNamed(subject, undo ? ['*', ...issuers] : ['*'])
  const facts = { at: now, recordedAt: now, event: 'operator', source: operator, sender: issuer, isOperator: true }
  if (undo) return entriesOf('undo', targetsIn(named, 'user', 'session', 'token', 'other'), facts)
  // A session or a token of a user is less than the user.
  const ended = targetsIn(named, 'session', 'token')
  return ended.length > 0 ? entriesOf('end', ended, facts) : entriesOf('cutoff', targetsIn(named, 'user', 'other'), facts)
}

function readNamed (subject: JsonObject, tokenIssuers: readonly string[]): Subject {
  // The formats beside those of RFC 9493: a client, a key, an issuer as a whole.
  switch (subject.format) {
    case 'client': return [{ kind: 'other', target: ['client', textOf(subject, 'iss'), textOf(subject, 'client_id')] }]
    case 'jkt': return [{ kind: 'other', target: ['jkt', textOf(subject, 'jkt')] }]
    case 'issuer': return [{ kind: 'other', target: ['issuer', textOf(subject, 'iss')] }]
  }
  return readSubject(subject, { sender: '', tokenIssuers, sessionClaim: 'sid', subjectClaims: {}, criticalMembers: [] }, true) ?? []
}
