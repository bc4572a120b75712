import { certificateHeaders, createCertificateReader } from '../../lib/guard/certificate/client-certificate.ts'
import { isGuest } from '../../lib/guard/admission.ts'
import { verifyCertificate, verifySchemeFits } from '../../lib/guard/guard.ts'
import { verifyLinesCounted } from '../../lib/guard/message.ts'
import { offeredSchemes, parseCredentials, schemeOf } from '../../lib/guard/credentials.ts'
import { Refusal } from '../../lib/refusal.ts'
import { findClaim, isScopeGranted } from '../../lib/guard/requirement/judge.ts'
import type { Requirement } from '../../lib/guard/requirement/requirement.ts'
import { isOptional, scopesOf } from '../../lib/guard/requirement/route-guard.ts'
import { createPeerTrust } from '../../lib/guard/url/base-url.ts'
import type { Examination } from './examination.ts'
import { PROOF_STEPS } from './proof-steps.ts'
import { STANDING_STEPS } from './standing-steps.ts'
import { NotChecked, requireClaims, show, showMembers, showTimes, type Compared, type Step } from './step.ts'
import { TOKEN_STEPS } from './token-steps.ts'

/** Every check of the guard, in the guard's order. */
export const STEPS: readonly Step[] = [
  {
    name: 'credentials',
    run: readCredentials,
    title: 'There is one Authorization header, and its scheme is accepted',
    failed:
      'There is no usable Authorization header: it is missing, repeated or malformed, or its scheme is not accepted',
    compared: ({ message, options }) => [
      ['Authorization lines', show(message.authorizationCount)],
      // What has no blank behind it may be a token.
      ['scheme', show(schemeOf(message.authorization) ?? /^[\w-]{1,20}(?= )/.exec(message.authorization ?? '')?.[0])],
      ['accepted schemes', offeredSchemes(options.settings.idp.dpopMode).join(', ')]
    ]
  },
  {
    name: 'domain',
    run: requireProvider,
    title: 'An identity provider is configured',
    failed: 'No identity provider is configured: the domain begins with a scheme',
    compared: ({ options }) => [
      ['issuer', show(options.settings.idp.issuers.map(({ issuer }) => issuer).join(', ') || undefined)]
    ]
  },
  ...TOKEN_STEPS,
  ...STANDING_STEPS,
  {
    name: 'certificate',
    applies: ({ verified }) => verified?.binding.x5tS256 !== undefined,
    run: fitCertificate,
    title: 'The client has the certificate that the token is bound to',
    failed: 'The client does not have the certificate that the token is bound to',
    compared: e => [
      ['cnf["x5t#S256"]', show(e.verified?.binding.x5tS256)],
      ['certificate from', e.options.settings.server.clientCertificate],
      ['peer', show(e.request.remoteAddress)]
    ]
  },
  {
    name: 'scheme',
    run: fitScheme,
    title: 'The scheme fits the token: DPoP for a bound token, Bearer for an unbound one',
    failed: 'The scheme does not fit the token: a bound token needs DPoP, an unbound one Bearer',
    compared: ({ credentials, verified, message }) => [
      ['scheme', show(credentials?.scheme)],
      ['cnf.jkt', show(verified?.binding.jkt)],
      ['DPoP lines', show(message.dpopCount)]
    ]
  },
  ...PROOF_STEPS,
  {
    name: 'requirement',
    run: judgeRequirements,
    title: 'The token has what the route asks for',
    failed: 'The token does not have what the route asks for',
    compared: e => {
      const { requirements = [] } = e.options
      return [
        ['granted', show(e.verified?.scopes.join(' ') || undefined)],
        ['needed', show(requirements.map(neededScopes).filter(Boolean).join('; ') || undefined)],
        ['missing', show(missingScopes(e).join(' ') || undefined)],
        ['read from', show(e.issuer?.scopeClaims.join(', '))],
        ...requirements.flatMap(requirement => furtherNeeds(e, requirement))
      ]
    }
  }
]

function readCredentials (e: Examination) {
  verifyLinesCounted(e.message.received)
  const { requirements } = e.options
  try {
    e.credentials = parseCredentials(e.message, e.options.settings.idp.dpopMode)
  } catch (error) {
    if (!requirements?.length || !isOptional(requirements) || !isGuest(error, e.message)) throw error
    e.isGuest = true
  }
}

function requireProvider (e: Examination) {
  if (e.options.settings.idp.issuers.length === 0) throw new Refusal('domain_has_scheme')
  e.token = { text: e.credentials!.token, now: e.options.now }
}

function fitCertificate (e: Examination) {
  const { clientCertificate: source, trustProxy } = e.options.settings.server
  const { received } = e.message
  const headers = certificateHeaders(source)
  if (headers.length === 0) throw new NotChecked('Only the running service sees the certificate of a connection.')
  if (!headers.some(header => header in received.headers)) {
    throw new NotChecked(
      `The captured request has no ${headers.join(' or ')}. The proxy adds it, so only a capture behind the ` +
        'proxy has it.'
    )
  }
  verifyCertificate(
    e.verified!.binding,
    e.message,
    createCertificateReader({ source, isTrustedPeer: createPeerTrust(trustProxy) })
  )
}

function fitScheme (e: Examination) {
  requireClaims(e)
  verifySchemeFits(e.credentials!.scheme, e.verified!.binding, e.message, e.issuer!.dpopMode)
}

async function judgeRequirements (e: Examination) {
  const { requirements } = e.options
  if (!requirements) throw new NotChecked('This tool does not know what the route needs.')
  if (requirements.length > 0) requireClaims(e)
  for (const requirement of requirements) {
    try {
      await e.judge(e.verified!, requirement)
    } catch (error) {
      if (error instanceof Refusal) throw error
      throw new NotChecked(`${(error as Error).message} here. If it fails in the service too, the answer is 500.`)
    }
  }
}

function neededScopes ({ scope = [], anyScope = [] }: Requirement): string {
  return [...scope, anyScope.join(' or ')].filter(Boolean).join(' and ')
}

/** The scopes that are named and not granted. If any one is enough, the others may be missing. */
function missingScopes ({ verified, options, granters }: Examination): readonly string[] {
  return (options.requirements ?? []).flatMap(scopesOf).filter(name =>
    !isScopeGranted(name, verified?.scopes ?? [], granters)
  )
}

/** What is required beside scopes, each with what the token has. */
function furtherNeeds (
  e: Examination,
  { acr, maxAgeSeconds, claims = [], authorizationDetails = [] }: Requirement
): Compared {
  const found = e.token?.claims
  return [
    ...acr ? [...showMembers(found, ['acr']), ['acr needed', acr.join(' or ')] as const] : [],
    ...maxAgeSeconds === undefined
      ? []
      : [...showTimes(found, ['auth_time'], e), ['login needed', `at most ${maxAgeSeconds} s ago`] as const],
    ...claims.flatMap(({ name, allowed }) =>
      [
        [name, show(found && findClaim(found, name))],
        [`${name} needed`, allowed ? allowed.join(' or ') : 'what the route accepts']
      ] as const
    ),
    ...authorizationDetails.flatMap(({ type, check }) => [
      ...showMembers(found, ['authorization_details']),
      ['type needed', check ? `${type}, with what the route accepts` : type] as const
    ])
  ]
}
