import { isJsonObject } from '../json.ts'
import type { JsonObject } from '../json.ts'
import { entriesAbout } from './effects.ts'
import type { RevocationEntry } from './log.ts'
import { ForbiddenSubjectError, issuersOf, objectOf, readSubject, SubjectError, textOf } from './subject.ts'
import type { Subject, SubjectRules } from './subject.ts'
import type { ClaimNamesOf, RevocationTarget } from './target.ts'

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

/**
 * What an operator revokes, or gives back. Empty for a subject that no token can have. A subject that names no issuer,
 * such as an address, is one at each issuer that the operator acts for.
 * @throws SubjectError, ForbiddenSubjectError
 */
export function operatorEntries (
  { body, operator, issuer, others, known, namesOf, now }: OperatorRequest
): readonly RevocationEntry[] {
  const request = objectOf(body, 'the body')
  const { sub_id: subject = request.subject, undo = false } = request
  if (typeof undo !== 'boolean') throw new SubjectError('undo is neither true nor false')
  if (!isJsonObject(subject)) throw new SubjectError('the body has no sub_id')
  const named = readNamed(subject, {
    // Entries of event senders have an issuer in their keys, so an undo names each issuer too.
    tokenIssuers: others.includes('*') ? ['*', ...undo ? known : []] : [issuer, ...others],
    sessionClaimsOf: issuer => namesOf(issuer).session,
    subjectClaims: {},
    criticalMembers: [],
    isStrict: true
  })
  return entriesAbout(named, undo ? 'undo' : 'revoke', { at: now, now, event: 'operator', sender: issuer, operator })
}

function readNamed (subject: JsonObject, rules: SubjectRules): Subject {
  const other = (target: RevocationTarget): Subject => [{ kind: 'other', target }]
  // The formats beside those of RFC 9493: a client, a key, an issuer as a whole.
  switch (subject.format) {
    case 'client': {
      const [iss, client] = [textOf(subject, 'iss'), textOf(subject, 'client_id')]
      return issuersOf(iss, rules)!.flatMap(issuer => other(['client', issuer, client]))
    }
    case 'issuer':
      return issuersOf(textOf(subject, 'iss'), rules)!.flatMap(issuer => other(['issuer', issuer]))
    case 'jkt': {
      const jkt = textOf(subject, 'jkt')
      if (rules.tokenIssuers.includes('*')) return other(['jkt', jkt])
      throw new ForbiddenSubjectError(
        'A key may have tokens of any issuer, and this operator may not act for all of them.'
      )
    }
    default:
      return readSubject(subject, rules, true) ?? []
  }
}
