import { isJsonObject } from '../jose/jws.ts'
import type { JsonObject } from '../jose/jws.ts'
import { entriesOf } from './effects.ts'
import type { Change } from './effects.ts'
import type { RevocationEntry } from './entry.ts'
import { readSubject, SubjectError } from './subject.ts'
import type { Subject } from './subject.ts'

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

const NOBODY: Subject = { user: [], session: [], token: [], device: [], other: [], isAllSessions: false }

/**
 * What an operator takes back, or gives back. Empty for a subject that no token can have.
 * @throws SubjectError
 */
export function operatorEntries ({ body, operator, issuers, now }: OperatorRequest): readonly RevocationEntry[] {
  if (!isJsonObject(body)) throw new SubjectError('the body is not an object')
  const { sub_id: given = body.subject, undo = false } = body
  if (typeof undo !== 'boolean') throw new SubjectError('undo is neither true nor false')
  if (!isJsonObject(given)) throw new SubjectError('the body has no sub_id')
  // What a sender of events has ended is kept by issuer, so what is undone is looked for by issuer too.
  const changes = undo ? changesOf(given, ['*', ...issuers], true).map(({ target }) => ({ effect: 'undo' as const, target })) : changesOf(given, ['*'], false)
  return entriesOf(changes, { at: now, recordedAt: now, event: 'operator', source: operator })
}

function changesOf (subject: JsonObject, tokenIssuers: readonly string[], isUndo: boolean): readonly Change[] {
  const direct = directTarget(subject)
  if (direct) return [direct]
  const rules = { sender: '', tokenIssuers, sessionClaim: 'sid', subjectClaims: {}, criticalMembers: [] }
  const { user, session, token } = readSubject(subject, rules, true) ?? NOBODY
  // A session or a token of a user is less than the user. To undo both does no harm.
  const ended = [...session, ...token].map(target => ({ effect: 'end' as const, target }))
  return ended.length > 0 && !isUndo ? ended : [...user.map(target => ({ effect: 'cutoff' as const, target })), ...ended]
}

/** The formats beside those of RFC 9493: a client, a key, an issuer as a whole. */
function directTarget (subject: JsonObject): Change | undefined {
  const text = (member: string): string => {
    const value = subject[member]
    if (typeof value !== 'string' || value === '') throw new SubjectError(`the subject has no ${member}`)
    return value
  }
  switch (subject.format) {
    case 'client': return { effect: 'cutoff', target: ['client', text('iss'), text('client_id')] }
    case 'jkt': return { effect: 'cutoff', target: ['jkt', text('jkt')] }
    case 'issuer': return { effect: 'cutoff', target: ['issuer', text('iss')] }
    default: return undefined
  }
}
