import { findClaim, isScopeGranted } from '../lib/requirement/judge.ts'
import type { Requirement } from '../lib/requirement/requirement.ts'
import { scopesOf } from '../lib/requirement/route-guard.ts'
import { offeredSchemes, schemeOf } from '../lib/message.ts'
import { thumbprint } from '../lib/jose/public-key.ts'
import { decodeJsonObject } from '../lib/jose/signed-jwt.ts'
import type { JsonObject } from '../lib/json.ts'
import { AUDIENCE_CLAIMS } from '../lib/token/jwt-checks.ts'
import type { Examination } from './examination.ts'
import type { StepName } from './steps.ts'

/** The values that a step compared, in the order in which they are shown. */
export type Compared = ReadonlyArray<readonly [label: string, value: string]>

export interface StepText {
  /** What holds when the check passes. */
  readonly title: string
  /** What holds when it fails. */
  readonly failed: string
  readonly compared: (examination: Examination) => Compared
}

const MAX_CHARACTERS = 600

/** A value as it is shown: text as it is, any other value as JSON, both bounded. */
function show (value: unknown): string {
  const text = value === undefined ? '(none)' : typeof value === 'string' ? value : JSON.stringify(value)
  return text.length <= MAX_CHARACTERS ? text : `${text.slice(0, MAX_CHARACTERS)}\u2026 (${text.length} characters)`
}

function showMembers (object: JsonObject | undefined, names: readonly string[]): Compared {
  return names.map(name => [name, show(object?.[name])])
}

/** Unix seconds as a date, with the distance from the time of judging. */
function showTime (value: unknown, now: number): string {
  if (typeof value !== 'number' || Math.abs(value) > 8.64e12) return show(value)
  const distance = Math.round(value - now)
  const relation = distance === 0 ? 'now' : distance > 0 ? `${distance} s ahead` : `${-distance} s ago`
  return `${value} (${new Date(value * 1000).toISOString()}, ${relation})`
}

const nowOf = ({ options }: Examination): string => showTime(options.now, options.now)
const tokenHeader = ({ token }: Examination): JsonObject | undefined => token?.header
const tokenClaims = ({ token }: Examination): JsonObject | undefined => token?.claims
const proofHeader = ({ proof }: Examination): JsonObject | undefined => proof?.jws && decodeJsonObject(proof.jws.header)
const proofClaims = ({ proof }: Examination): JsonObject | undefined =>
  proof?.jws && decodeJsonObject(proof.jws.payload)
/** `aud`, and the claim that must hold the audience in its place. */
const audienceClaims = ({ issuer }: Examination): readonly string[] =>
  AUDIENCE_CLAIMS.filter(claim => claim === 'aud' || claim === issuer?.audienceClaim)
const formOf = (
  text: string | undefined
): Compared => [['characters', show(text?.length)], ['segments (3 are needed)', show(text?.split('.').length)]]

function requestUrl ({ proof, request, message, options }: Examination): Compared {
  if (proof?.url) return [['URL of the request', proof.url.href]]
  return [['request target', show(request.target)], ['Host', show(message.host)], [
    'PUBLIC_URL',
    show(options.settings.server.publicUrl)
  ]]
}

/** The sentences and the compared values of each step. */
export const STEP_TEXTS: Readonly<Record<StepName, StepText>> = {
  credentials: {
    title: 'There is one Authorization header, and its scheme is accepted',
    failed:
      'There is no usable Authorization header: it is missing, repeated or malformed, or its scheme is not accepted',
    compared: ({ message, options }) => [
      ['Authorization lines', show(message.authorizationCount)],
      ['scheme', show(schemeOf(message.authorization) ?? message.authorization?.split(' ', 1)[0])],
      ['accepted schemes', offeredSchemes(options.settings.idp.dpopMode).join(', ')]
    ]
  },
  domain: {
    title: 'An identity provider is configured',
    failed: 'No identity provider is configured: the domain begins with a scheme',
    compared: ({ options }) => [[
      'issuer',
      show(options.settings.idp.issuers.map(({ issuer }) => issuer).join(', ') || undefined)
    ]]
  },
  'token.form': {
    title: 'The token is a signed JWT, or an opaque one if an issuer has those',
    failed: 'The token is not a signed JWT, and no issuer has opaque ones',
    compared: ({ token }) => formOf(token?.text)
  },
  'token.iss': {
    title: 'It was issued by a configured issuer',
    failed: 'It was issued by another issuer',
    compared: e => [...showMembers(tokenClaims(e), ['iss']), [
      'configured issuer',
      show(e.options.settings.idp.issuers.map(({ issuer }) => issuer).join(', '))
    ]]
  },
  'token.alg': {
    title: 'The token is signed with an accepted algorithm',
    failed: 'The token is signed with an algorithm that is not accepted',
    compared: e => [...showMembers(tokenHeader(e), ['alg']), ['accepted algorithms', show(e.issuer?.algs.join(', '))]]
  },
  'token.typ': {
    title: 'It is an access token',
    failed: 'By its typ it is another kind of token',
    compared: e => showMembers(tokenHeader(e), ['typ'])
  },
  'token.crit': {
    title: 'Its header asks for no extension',
    failed: 'Its header asks for an extension that the service does not have',
    compared: e => showMembers(tokenHeader(e), ['crit', 'b64'])
  },
  'token.kid': {
    title: 'If it names its key (kid), the name is text',
    failed: 'The name of its key (kid) is not text',
    compared: e => showMembers(tokenHeader(e), ['kid'])
  },
  'token.kind': {
    title: 'By its claims it is no other kind of token',
    failed: 'By its claims it is another kind of token',
    compared: e => showMembers(tokenClaims(e), ['events', 'token_use', 'typ', 'token_type'])
  },
  'token.claims': {
    title: 'Its claims are there and of the right types',
    failed: 'One of its claims is missing or of the wrong type',
    compared: e => showMembers(tokenClaims(e), ['iss', 'sub', ...audienceClaims(e), 'exp', 'nbf', 'iat'])
  },
  'token.cnf': {
    title: 'If it is bound, the service can check the binding',
    failed: 'It is bound in a way that the service cannot check',
    compared: e => showMembers(tokenClaims(e), ['cnf'])
  },
  'token.aud': {
    title: 'It is meant for this API',
    failed: 'It is meant for another API',
    compared: e => [
      ...showMembers(tokenClaims(e), audienceClaims(e)),
      ['configured audience', show(e.issuer?.audience)],
      ...(e.options.settings.server.resource === undefined
        ? []
        : [['configured resource', e.options.settings.server.resource] as const])
    ]
  },
  'token.time': {
    title: 'It is valid now',
    failed: 'It has expired, or is not valid yet',
    compared: e => [
      ['exp', showTime(tokenClaims(e)?.exp, e.options.now)],
      ['nbf', showTime(tokenClaims(e)?.nbf, e.options.now)],
      ['judged at', nowOf(e)],
      ['tolerance', `${e.options.settings.idp.clockToleranceSeconds} s`]
    ]
  },
  'token.key': {
    title: 'Its issuer publishes the key',
    failed: 'Its issuer does not publish the key',
    compared:
      e => [...showMembers(tokenHeader(e), ['kid']), ['keys that may have signed it', show(e.candidates?.length)]]
  },
  'token.signature': {
    title: 'Its signature was made with that key',
    failed: 'Its signature was not made with that key',
    compared: e => showMembers(tokenHeader(e), ['alg', 'kid'])
  },
  'token.introspection': {
    title: 'Its issuer says that it is active, and says nothing else about it that does not fit',
    failed: 'Its issuer says that it is not active, or something else about it that does not fit',
    compared: e => [
      ['introspecting issuer', show(e.issuer?.issuer)],
      ...showMembers(tokenClaims(e), ['sub', 'aud', 'exp', 'scope', 'cnf'])
    ]
  },
  'token.lifetime': {
    title: 'It is not valid for longer than revocations are remembered',
    failed: 'It is valid for longer than revocations are remembered',
    compared: e => [
      ['iat', showTime(tokenClaims(e)?.iat, e.options.now)],
      ['exp', showTime(tokenClaims(e)?.exp, e.options.now)],
      ['revocation.retentionSeconds', show(e.options.settings.revocation?.retentionSeconds)]
    ]
  },
  'token.revocation': {
    title: 'Nothing has revoked it: not itself, its session, its user, its client, its key or its issuer',
    failed: 'It has been revoked: itself, its session, its user, its client, its key or its issuer',
    compared: e => [
      ...showMembers(tokenClaims(e), ['sub', 'sid', 'jti', 'client_id']),
      ['iat', showTime(tokenClaims(e)?.iat, e.options.now)],
      ...(e.revokedBy
        ? [['revoked by', `${e.revokedBy.event} from ${e.revokedBy.source}`], [
            'at',
            showTime(e.revokedBy.at, e.options.now)
          ]] as const
        : [])
    ]
  },
  certificate: {
    title: 'The client has the certificate that the token is bound to',
    failed: 'The client does not have the certificate that the token is bound to',
    compared: e => [['cnf["x5t#S256"]', show(e.verified?.binding.x5tS256)], [
      'certificate from',
      e.options.settings.server.clientCertificate
    ], ['peer', show(e.request.remoteAddress)]]
  },
  scheme: {
    title: 'The scheme fits the token: DPoP for a bound token, Bearer for an unbound one',
    failed: 'The scheme does not fit the token: a bound token needs DPoP, an unbound one Bearer',
    compared: e => [['scheme', show(e.credentials?.scheme)], ['cnf.jkt', show(e.verified?.binding.jkt)], [
      'DPoP lines',
      show(e.message.dpopCount)
    ]]
  },
  proof: {
    title: 'There is one proof',
    failed: 'There is no proof, or more than one',
    compared: ({ message }) => [['DPoP lines', show(message.dpopCount)], ['characters', show(message.dpop?.length)]]
  },
  'proof.form': {
    title: 'The proof is a signed JWT of at most 8 KiB',
    failed: 'The proof is not a signed JWT of at most 8 KiB',
    compared: ({ proof }) => formOf(proof?.proof)
  },
  'proof.header': {
    title: 'Its header names an accepted algorithm and a public key for it',
    failed: 'Its header has no accepted algorithm, or no public key for it',
    compared: e => [
      ...showMembers(proofHeader(e), ['typ', 'alg', 'jwk', 'crit']),
      ['accepted algorithms', e.options.settings.dpop.algs.join(' ')],
      ['thumbprint of jwk', show(e.proof?.header && thumbprint(e.proof.header.jwk))]
    ]
  },
  'proof.claims': {
    title: 'Its claims are there, of the right types, and valid now',
    failed: 'One of its claims is missing, of the wrong type, or says that it is not valid now',
    compared: e => [...showMembers(proofClaims(e), ['jti', 'htm', 'htu', 'ath', 'iat', 'exp', 'nbf', 'nonce']), [
      'judged at',
      nowOf(e)
    ]]
  },
  'proof.htm': {
    title: 'It was made for this method',
    failed: 'It was made for another method',
    compared: e => [...showMembers(proofClaims(e), ['htm']), ['method', show(e.request.method)]]
  },
  'proof.htu': {
    title: 'It was made for this URL',
    failed: 'It was made for another URL',
    compared: e => [...showMembers(proofClaims(e), ['htu']), ...requestUrl(e)]
  },
  'proof.iat': {
    title: 'It was made just now',
    failed: 'It was made too long ago, or in the future',
    compared: e => [
      ['iat', showTime(proofClaims(e)?.iat, e.options.now)],
      ['judged at', nowOf(e)],
      [
        'accepted',
        e.policy.nonces
          ? 'any time, because the nonce tells the age'
          : `from ${e.policy.iatOffsetSeconds} s ago to ${e.policy.iatLeewaySeconds} s ahead`
      ]
    ]
  },
  'proof.ath': {
    title: 'It was made for this token',
    failed: 'It was made for another token',
    compared: e => [...showMembers(proofClaims(e), ['ath']), ['hash of the token', show(e.verified?.tokenHash)]]
  },
  'proof.jkt': {
    title: 'Its key is the one that the token is bound to',
    failed: 'Its key is not the one that the token is bound to',
    compared:
      e => [['thumbprint of jwk', show(e.proof?.header?.jkt)], ['cnf.jkt of the token', show(e.verified?.binding.jkt)]]
  },
  'proof.signature': {
    title: 'Its signature was made with that key',
    failed: 'Its signature was not made with that key',
    compared: e => showMembers(proofHeader(e), ['alg'])
  },
  'proof.nonce': {
    title: 'If nonces are required, it has a recent one from this service',
    failed: 'It has no recent nonce of this service',
    compared: e => [...showMembers(proofClaims(e), ['nonce']), ['DPOP_NONCE', e.options.settings.dpop.nonce]]
  },
  'proof.iat-beside-nonce': {
    title: 'If its age counts beside a nonce, it was made just now',
    failed: 'It was made too long ago, or in the future, and its age counts beside the nonce',
    compared:
      e => [['iat', showTime(proofClaims(e)?.iat, e.options.now)], ['DPOP_NONCE_IAT', e.options.settings.dpop.nonceIat]]
  },
  'proof.replay': {
    title: 'It was not used before',
    failed: 'It was used before',
    compared: e => showMembers(proofClaims(e), ['jti'])
  },
  requirement: {
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
  const found = tokenClaims(e)
  return [
    ...(acr ? [...showMembers(found, ['acr']), ['acr needed', acr.join(' or ')] as const] : []),
    ...(maxAgeSeconds === undefined
      ? []
      : [['auth_time', showTime(found?.auth_time, e.options.now)], [
          'login needed',
        `at most ${maxAgeSeconds} s ago`
        ]] as const),
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
