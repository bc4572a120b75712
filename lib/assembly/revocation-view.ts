import { createCutoffs } from '../revocation/cutoffs.ts'
import type { Cutoffs } from '../revocation/cutoffs.ts'
import type { RevocationLog } from '../revocation/log.ts'
import { createRevocations } from '../revocation/revocations.ts'
import type { Revocations } from '../revocation/revocations.ts'
import type { ClaimNames } from '../revocation/target.ts'
import type { RevocationSettings } from '../settings/revocation-settings.ts'
import type { Settings } from '../settings/settings.ts'

/** What a process knows of the log of revocations, and how it judges tokens by it. */
export interface RevocationView {
  readonly cutoffs: Cutoffs
  /** Seconds for which an entry counts. */
  readonly keptSeconds: number
  /** The question whether a token is refused, by a log whose entries `cutoffs` gets. */
  judge (log: RevocationLog): Revocations
}

/** Maximum number of users, sessions and other keys with a cutoff, a block or an end. */
const MAX_KEYS = 1_000_000

/** @param now Unix seconds */
export function createRevocationView (revocation: RevocationSettings, { idp }: Pick<Settings, 'idp'>, now: () => number): RevocationView {
  const { retentionSeconds, staleSeconds, outage } = revocation
  // A token passes for as long as the clock tolerance after its `exp`, and for so long its cutoff counts.
  const keptSeconds = retentionSeconds + idp.clockToleranceSeconds
  const cutoffs = createCutoffs({ max: MAX_KEYS, retentionSeconds: keptSeconds, now })
  const names = claimNamesOf(revocation)
  return { cutoffs, keptSeconds, judge: log => createRevocations({ cutoffs, log, names, retentionSeconds, staleSeconds, outage, now }) }
}

/** Operators name sessions by `sid` and addresses by `email`, whatever senders do. */
function claimNamesOf ({ transmitters, logout }: RevocationSettings): ClaimNames {
  const session = [...transmitters, ...logout].map(({ sessionClaim }) => sessionClaim).filter(name => name !== false)
  const other = transmitters.flatMap(({ subjectClaims }) => Object.values(subjectClaims)).filter(name => name !== 'sub')
  return { session: [...new Set(['sid', ...session])], other: [...new Set(['email', ...other])] }
}
