import type { Revocation } from '../../lib/revocation/view.ts'
import { lifetimeRefusal } from '../../lib/revocation/revocations.ts'
import type { TokenClaims } from '../../lib/guard/token/jwt-checks.ts'
import { rulesOf, type Examination } from './examination.ts'
import {
  NotChecked,
  requireClaims,
  show,
  showTime,
  tokenClaims as claims,
  tokenTimes as times,
  type Step
} from './step.ts'
import { know } from './token-steps.ts'

const canBeRevoked = ({ options }: Examination) => options.settings.revocation !== undefined

/** The service asks the issuer of the token about it. */
function isIntrospected ({ issuer, isOpaque }: Examination): boolean {
  const covers = issuer?.introspection?.covers
  return isOpaque === true || (covers !== undefined && covers !== 'opaque')
}

/** Whether a token that was issued still holds, in the guard's order: by its issuer, and by what was revoked. */
export const STANDING_STEPS: readonly Step[] = [
  {
    name: 'token.introspection',
    applies: isIntrospected,
    run: askIssuer,
    title: 'Its issuer says that it is active, and says nothing else about it that does not fit',
    failed: 'Its issuer says that it is not active, or something else about it that does not fit',
    compared: e => [
      ['introspecting issuer', show(e.issuer?.issuer)],
      ...claims(e, 'sub', 'aud', 'exp', 'scope', 'cnf')
    ]
  },
  {
    name: 'token.lifetime',
    applies: canBeRevoked,
    run: fitLifetime,
    title: 'It is not valid for longer than revocations are remembered',
    failed: 'It is valid for longer than revocations are remembered',
    compared: e => [
      ...times(e, 'iat', 'exp'),
      ['revocation.retentionSeconds', show(e.options.settings.revocation?.retentionSeconds)]
    ]
  },
  {
    name: 'token.revocation',
    applies: canBeRevoked,
    run: judgeRevocation,
    title: 'Nothing has revoked it: not itself, its session, its user, its client, its key or its issuer',
    failed: 'It has been revoked (itself, its session, user, client, key or issuer), or that cannot be judged',
    compared: e => [
      ...claims(e, 'sub', 'sid', 'jti', 'client_id'),
      ...times(e, 'iat'),
      ...e.revokedBy
        ? [
            ['revoked by', `${e.revokedBy.event} from ${e.revokedBy.source}`],
            ['at', showTime(e.revokedBy.at, e)]
          ] as const
        : []
    ]
  }
]

async function askIssuer (e: Examination) {
  const { introspect } = e.options
  const { text, now } = e.token!
  if (e.isOpaque) {
    know(e, {} as TokenClaims, true)
    e.areClaimsUnknown = true
  }
  if (!introspect) {
    throw new NotChecked('The service asks the issuer about the token. This tool asks only with --introspect.')
  }
  const inquiry = await introspect(e.issuer!)
  if (!e.isOpaque) {
    await inquiry.confirm(text, rulesOf(e), e.verified!.claims)
    return
  }
  const { claims } = await inquiry.claimsOf(text, true, rulesOf(e), now)
  e.token!.claims = claims
  know(e, claims, true)
  e.areClaimsUnknown = false
}

function fitLifetime (e: Examination) {
  requireClaims(e)
  const { claims: { exp, iat } } = e.verified!
  const { settings: { idp, revocation }, now } = e.options
  const refusal = lifetimeRefusal(exp, iat, revocation!.retentionSeconds, now + idp.clockToleranceSeconds)
  if (refusal) throw refusal
}

function judgeRevocation (e: Examination) {
  const {
    revocations = 'Only the running service knows what has been revoked: its store is the memory of the process.'
  } = e.options
  requireClaims(e)
  if (typeof revocations === 'string') throw new NotChecked(revocations)
  const refusal = revocations.refusalOf(e.verified!)
  if (!refusal) return
  if (refusal.reason === 'token_revoked') e.revokedBy = refusal.detail as unknown as Revocation
  throw refusal
}
