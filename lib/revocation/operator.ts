import { isJsonObject } from '../jose/jws.ts'
import type { JsonObject } from '../jose/jws.ts'
import { changing, entriesOf } from './effects.ts'
import type { Change } from './effects.ts'
import type { RevocationEntry } from './log.ts'
import { objectOf, readSubject, SubjectError, targetsIn, textOf } from './subject.ts'

export interface OperatorRequest {
  /** The body: `sub_id` or `subject`, and `undo`. */
  readonly body: unknown
  /** The `sub` of the operator. */
  readonly operator: string
  /** The issuers that the settings name. */
  readonly issuers: readonly string[]
  /** Unix seconds. */
  readonly now: number
}

/**
 * What an operator revokes, or gives back. Empty for a subject that no token can have.
 * @throws SubjectError
 */
export function operatorEntries ({ body, operator, issuers, now }: OperatorRequest): readonly RevocationEntry[] {
  const request = objectOf(body, 'the body')
  const { sub_id: subject = request.subject, undo = false } = request
  if (typeof undo !== 'boolean') throw new SubjectError('undo is neither true nor false')
  if (!isJsonObject(subject)) throw new SubjectError('the body has no sub_id')
  // Entries of event senders have an issuer in their keys, so an undo names each issuer too.
  const changes = changesOf(subject, undo ? ['*', ...issuers] : ['*'], undo)
  return entriesOf(undo ? changing('undo', changes.map(({ target }) => target)) : changes, { at: now, recordedAt: now, event: 'operator', source: operator })
}

function changesOf (subject: JsonObject, tokenIssuers: readonly string[], isUndo: boolean): readonly Change[] {
  // The formats beside those of RFC 9493: a client, a key, an issuer as a whole.
  switch (subject.format) {
    case 'client': return changing('cutoff', [['client', textOf(subject, 'iss'), textOf(subject, 'client_id')]])
    case 'jkt': return changing('cutoff', [['jkt', textOf(subject, 'jkt')]])
    case 'issuer': return changing('cutoff', [['issuer', textOf(subject, 'iss')]])
  }
  const named = readSubject(subject, { sender: '', tokenIssuers, sessionClaim: 'sid', subjectClaims: {}, criticalMembers: [] }, true) ?? []
  // A session or a token of a user is less than the user. To undo both does no harm.
  const ended = changing('end', [...targetsIn(named, 'session'), ...targetsIn(named, 'token')])
  return ended.length > 0 && !isUndo ? ended : [...changing('cutoff', targetsIn(named, 'user')), ...ended]
}
