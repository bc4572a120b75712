import { isJsonObject, type JsonObject } from '../base/json.ts'
import { withoutTrailingSlash } from '../guard/provider/provider-url.ts'
import { entriesAbout } from './effects.ts'
import type { RevocationEntry } from './entry.ts'
import { isBeyondEvents } from './security-event-token.ts'
import { misunderstood, SetError } from './set-error.ts'
import { objectOf, own, readSubject, textOf, type Subject, type SubjectRules } from './subject.ts'
import type { ClaimNamesOf, RevocationTarget } from './target.ts'

interface OperatorRequest {
  /** JSON: `sub_id` or `subject`, and `undo`. */
  readonly body: string
  /** The `sub` of the operator. */
  readonly operator: string
  /** The issuer of the operator's own token. */
  readonly issuer: string
  /** Other issuers that operators act for. `*` means all. */
  readonly others: readonly string[]
  /** The issuers that the settings name: the application may know more. */
  readonly known: readonly string[]
  /** What holds sessions in the tokens of an issuer, and of `*`: of any. */
  readonly namesOf: ClaimNamesOf
  /** The claims by which a session has ended, whatever these settings name. */
  readonly endedBy: (issuer: string, session: string) => readonly string[]
  /** Unix seconds. */
  readonly now: number
}

/**
 * What an operator revokes, or gives back. Empty for a subject that no token can have. A subject that names no issuer,
 * such as an address, is one at each issuer that the operator acts for.
 * @throws SetError
 */
export function operatorEntries (
  { body, operator, issuer, others, known, namesOf, endedBy, now }: OperatorRequest
): readonly RevocationEntry[] {
  const request = objectOf(parse(body), 'the body')
  const { sub_id: subject = request.subject, undo = false } = request
  if (typeof undo !== 'boolean') throw misunderstood('undo is neither true nor false')
  if (!isJsonObject(subject)) throw misunderstood('the body has no sub_id')
  // Entries of event senders have an issuer in their keys, so an undo names each issuer too.
  const tokenIssuers = others.includes('*') ? ['*', ...undo ? [issuer, ...known] : []] : [issuer, ...others]
  const named = readNamed(subject, {
    tokenIssuers,
    sessionClaimsOf: (issuer, session) => [...namesOf(issuer).session, ...undo ? endedBy(issuer, session) : []],
    subjectClaims: {},
    criticalMembers: [],
    isStrict: true
  })
  verifyRight(subject, tokenIssuers)
  return entriesAbout(named, undo ? 'undo' : 'revoke', { at: now, event: 'operator', sender: issuer, operator })
}

function parse (json: string): unknown {
  if (isBeyondEvents(Buffer.from(json))) throw misunderstood('the body holds too many values')
  try {
    return JSON.parse(json)
  } catch {
    throw misunderstood('the body is not JSON')
  }
}

/** The formats beside those of RFC 9493, a client, a key and an issuer as a whole, and what each consists of. */
const FORMATS: Readonly<Record<string, readonly string[]>> = Object.freeze({
  client: ['iss', 'client_id'],
  jkt: ['jkt'],
  issuer: ['iss']
})

function readNamed (subject: JsonObject, rules: SubjectRules): Subject {
  const { format } = subject
  const members = typeof format === 'string' ? own(FORMATS, format) : undefined
  if (!members) return readSubject(subject, rules, true) ?? []
  const values = members.map(member => textOf(subject, member))
  return [{ kind: 'other', target: [format, ...values] as unknown as RevocationTarget }]
}

/**
 * An issuer that stands anywhere in a subject is meant, also beside a name that is looked for at each issuer.
 * @throws SetError access_denied
 */
function verifyRight (subject: JsonObject, issuers: readonly string[]) {
  if (issuers.includes('*')) return
  if (subject.format === 'jkt') {
    throw new SetError(
      'A key may have tokens of any issuer, and this operator may not act for all of them.',
      'access_denied'
    )
  }
  const spelled = new Set(issuers.map(withoutTrailingSlash))
  if (issuersIn(subject).some(iss => !spelled.has(withoutTrailingSlash(iss)))) {
    throw new SetError('This operator may not act for the issuer of the subject.', 'access_denied')
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
