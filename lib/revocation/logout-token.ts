import { isJsonObject } from '../base/json.ts'
import { timeFault } from '../guard/jose/signed-jwt.ts'
import { entriesAbout, momentOf } from './effects.ts'
import type { RevocationEntry } from './entry.ts'
import type { UnverifiedSet } from './security-event-token.ts'
import { SetError } from './set-error.ts'
import type { Subject } from './subject.ts'
import { claimTarget } from './target.ts'

const LOGOUT_EVENT = 'http://schemas.openid.net/event/backchannel-logout'
const MAX_FORM_MEMBERS = 100

export interface LogoutRules {
  /** The issuer as the settings name it. */
  readonly issuer: string
  /** The claim of access tokens that holds the session. False if they have none. */
  readonly sessionClaim: string | false
  readonly clockToleranceSeconds: number
}

/**
 * The logout token in a form (Back-Channel Logout 1.0 section 2.5). Other members are passed over.
 * @throws SetError
 */
export function readLogoutForm (form: string): string {
  if (form.split('&', MAX_FORM_MEMBERS + 1).length > MAX_FORM_MEMBERS) {
    throw new SetError('The form has too many members.')
  }
  const [token, ...more] = new URLSearchParams(form).getAll('logout_token')
  if (token === undefined || more.length > 0) {
    throw new SetError('The form does not have exactly one logout_token.')
  }
  return token
}

/**
 * What a logout token ends after its header, `iss`, `aud`, `iat` and `jti` were checked (Back-Channel Logout 1.0
 * sections 2.4 and 2.6): its session, else every login of its user.
 * @param now Unix seconds
 * @throws SetError
 */
export function logoutEntries (
  { claims }: UnverifiedSet,
  { issuer, sessionClaim, clockToleranceSeconds }: LogoutRules,
  now: number
): readonly RevocationEntry[] {
  const { events, nonce, exp, sub, sid } = claims
  if (!isJsonObject(events) || !isJsonObject(events[LOGOUT_EVENT])) {
    throw new SetError('The token has no logout event.')
  }
  // A nonce would make it an ID token.
  if (nonce !== undefined) throw new SetError('A logout token has no nonce.')
  // Version 1.0 asks for it. Some providers leave it out, as drafts did.
  if (exp !== undefined && (typeof exp !== 'number' || timeFault({ exp }, now, clockToleranceSeconds))) {
    throw new SetError('The logout token has expired.')
  }
  if ([sub, sid].some(value => value !== undefined && (typeof value !== 'string' || value === ''))) {
    throw new SetError('A sub or sid of the logout token is not a text.')
  }
  const subject: Subject = [
    ...sid !== undefined && sessionClaim !== false
      ? [{ kind: 'session', target: claimTarget(sessionClaim, issuer, sid as string) }] as const
      : [],
    ...sub !== undefined ? [{ kind: 'user', target: ['sub', issuer, sub as string] }] as const : []
  ]
  if (subject.length === 0) {
    throw new SetError(
      sid === undefined
        ? 'The logout token has neither sub nor sid.'
        : 'The logout token has only a sid, and access tokens have none here.'
    )
  }
  return entriesAbout(subject, 'session', { at: momentOf({}, claims), event: 'logout', sender: issuer })
}
