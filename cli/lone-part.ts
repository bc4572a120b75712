import { STEPS } from './explain/steps.ts'
import type { Explanation } from './explain/explain.ts'
import type { Settings } from '../lib/settings/settings.ts'
import type { Capture } from './capture.ts'
import type { ExplainArguments } from './explain-options.ts'

interface Completed {
  /** Checks that are left out. */
  readonly unknown: readonly string[]
  readonly idp: Partial<Settings['idp']>
  /** Of an explanation what concerns the given part. */
  readonly select: (explanation: Explanation) => Explanation
}

const CHECKS = { token: /^(?:domain|token)\b/, proof: /^proof\b/ } as const

/** The checks of a proof need a bound token before them. Nothing else of this one is looked at. */
const BOUND_TOKEN = [{ alg: 'RS256' }, { cnf: { jkt: 'unknown' } }, {}].map(part =>
  Buffer.from(JSON.stringify(part)).toString('base64url')
).join('.')

/** Makes a request from only a token or a proof. Only the checks of that part are made and shown. */
export function completePart (capture: Capture, options: ExplainArguments, settings: Settings): Completed {
  const { only } = capture
  if (only === undefined) return { unknown: [], idp: {}, select: explanation => explanation }
  capture.notes.push(`This is only a ${only}: checks that need the whole request are not made.`)
  const shown = CHECKS[only]
  const select = (explanation: Explanation): Explanation => ({
    ...explanation,
    notChecked: explanation.notChecked.filter(name => shown.test(name)),
    steps: explanation.steps.filter(({ name }) => shown.test(name))
  })
  if (only === 'token') {
    const token = capture.headers[0]![1].split(/ +/)[1]!
    capture.headers = [['Authorization', `${settings.idp.dpopMode === 'REQUIRED' ? 'DPoP' : 'Bearer'} ${token}`]]
    return { unknown: namesOf(name => !shown.test(name) && name !== 'credentials'), idp: {}, select }
  }
  capture.headers.push(['Authorization', `DPoP ${BOUND_TOKEN}`])
  const missing = [
    'proof.ath',
    'proof.jkt',
    ...options.method === undefined ? ['proof.htm'] : [],
    ...options.url === undefined ? ['proof.htu'] : []
  ]
  const unknown = namesOf(name =>
    missing.includes(name) ||
    !(shown.test(name) || /^(?:credentials|domain|token\.(?:form|key|signature)|scheme)$/.test(name))
  )
  if (settings.idp.dpopMode === 'DISABLED') {
    capture.notes.push('DPoP is switched off, so the service does not look at proofs.')
  }
  return {
    unknown,
    idp: {
      issuers: settings.idp.issuers.map(issuer => ({ ...issuer, dpopMode: 'REQUIRED' as const })),
      dpopMode: 'REQUIRED'
    },
    select
  }
}

const namesOf = (matches: (name: string) => boolean): string[] => STEPS.map(({ name }) => name).filter(matches)
