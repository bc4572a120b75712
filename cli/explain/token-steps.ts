import { verifyOffered } from '../../lib/guard/credentials.ts'
import { findSignerByCrypto, type JwsAlg } from '../../lib/guard/jose/signature.ts'
import { isJwt, signerOf } from '../../lib/guard/jose/signed-jwt.ts'
import { isSameIssuer } from '../../lib/guard/token/claims.ts'
import { Refusal } from '../../lib/refusal.ts'
import {
  AUDIENCE_CLAIMS,
  issuerRefusal,
  readIssuer,
  readToken,
  TOKEN_CHECKS,
  type PresentedToken,
  type TokenClaims
} from '../../lib/guard/token/jwt-checks.ts'
import { createVerifiedToken } from '../../lib/guard/token/verified-tokens.ts'
import { rulesOf, type Examination } from './examination.ts'
import {
  judgedAt,
  NotChecked,
  show,
  showForm,
  showMembers,
  tokenClaims as claims,
  tokenTimes as times,
  type Step,
  type StepText
} from './step.ts'

const isJwtToken = ({ isOpaque }: Examination) => !isOpaque

const header = ({ token }: Examination, ...names: string[]) => showMembers(token?.header, names)
/** `aud`, and the claim that must hold the audience in its place. */
const audienceClaims = ({ issuer }: Examination): string[] =>
  AUDIENCE_CLAIMS.filter(claim => claim === 'aud' || claim === issuer?.audienceClaim)

/** What is said of the checks that need no key. */
const TEXTS: Readonly<Record<'form' | (typeof TOKEN_CHECKS)[number]['name'], StepText>> = {
  form: {
    title: 'The token is a signed JWT, or an opaque one if an issuer has those',
    failed: 'The token is not a signed JWT, and no issuer has opaque ones',
    compared: ({ token }) => showForm(token?.text)
  },
  iss: {
    title: 'It was issued by a configured issuer',
    failed: 'It was issued by another issuer',
    compared: e => [
      ...claims(e, 'iss'),
      ['configured issuer', show(e.options.settings.idp.issuers.map(({ issuer }) => issuer).join(', '))]
    ]
  },
  alg: {
    title: 'The token is signed with an accepted algorithm',
    failed: 'The token is signed with an algorithm that is not accepted',
    compared: e => [...header(e, 'alg'), ['accepted algorithms', show(e.issuer?.algs.join(', '))]]
  },
  typ: {
    title: 'It is an access token',
    failed: 'By its typ it is another kind of token',
    compared: e => header(e, 'typ')
  },
  crit: {
    title: 'Its header asks for no extension',
    failed: 'Its header asks for an extension that the service does not have',
    compared: e => header(e, 'crit', 'b64')
  },
  kid: {
    title: 'If it names its key (kid), the name is text',
    failed: 'The name of its key (kid) is not text',
    compared: e => header(e, 'kid')
  },
  kind: {
    title: 'By its claims it is no other kind of token',
    failed: 'By its claims it is another kind of token',
    compared: e => claims(e, 'events', 'token_use', 'typ', 'token_type')
  },
  claims: {
    title: 'Its claims are there and of the right types',
    failed: 'One of its claims is missing or of the wrong type',
    compared: e => claims(e, 'iss', 'sub', ...audienceClaims(e), 'exp', 'nbf', 'iat')
  },
  profile: {
    title: 'If the profile of RFC 9068 is asked for, it has what that needs',
    failed: 'It lacks what the profile of RFC 9068 needs',
    compared: e => [
      ['IDP_TOKEN_PROFILE', show(e.issuer?.tokenProfile)],
      ...e.issuer?.tokenProfile === 'rfc9068'
        ? [...header(e, 'typ'), ...claims(e, 'iss'), ['issuer as set', show(e.issuer.issuer)] as const, ...claims(
            e,
            'client_id',
            'jti',
            'iat'
          )]
        : []
    ]
  },
  cnf: {
    title: 'If it is bound, the service can check the binding',
    failed: 'It is bound in a way that the service cannot check',
    compared: e => claims(e, 'cnf')
  },
  aud: {
    title: 'It is meant for this API',
    failed: 'It is meant for another API',
    compared: e => {
      const { resource } = e.options.settings.server
      return [
        ...claims(e, ...audienceClaims(e)),
        ['configured audience', show(e.issuer?.audiences.join(' '))],
        ...resource === undefined ? [] : [['configured resource', resource] as const]
      ]
    }
  },
  time: {
    title: 'It is valid now',
    failed: 'It has expired, or is not valid yet',
    compared: e => [
      ...times(e, 'exp', 'nbf'),
      judgedAt(e),
      ['tolerance', `${e.options.settings.idp.clockToleranceSeconds} s`]
    ]
  }
}

/** The checks of the token, in the guard's order. */
export const TOKEN_STEPS: readonly Step[] = [
  { name: 'token.form', run: readForm, ...TEXTS.form },
  ...TOKEN_CHECKS.map(({ name, run }) => ({
    name: `token.${name}`,
    applies: isJwtToken,
    run: name === 'iss' ? chooseIssuer : (e: Examination) => run(e.token as PresentedToken, rulesOf(e)),
    ...TEXTS[name]
  })),
  {
    name: 'token.key',
    applies: isJwtToken,
    run: findSigner,
    title: 'Its issuer publishes the key',
    failed: 'Its issuer does not publish the key',
    compared: e => [...header(e, 'kid'), ['keys that may have signed it', show(e.candidates)]]
  },
  {
    name: 'token.signature',
    applies: isJwtToken,
    run: requireSigner,
    title: 'Its signature was made with that key',
    failed: 'Its signature was not made with that key',
    compared: e => header(e, 'alg', 'kid')
  }
]

function readForm (e: Examination) {
  const { text } = e.token!
  const ofOpaque = e.options.settings.idp.issuers.find(({ introspection }) =>
    introspection && introspection.covers !== 'jwt'
  )
  if (!ofOpaque || isJwt(text)) {
    Object.assign(e.token!, readToken(text))
    return
  }
  e.isOpaque = true
  e.issuer = ofOpaque
  verifyOffered(e.credentials!, ofOpaque.dpopMode)
}

function chooseIssuer (e: Examination) {
  const { issuers } = e.options.settings.idp
  const iss = readIssuer(e.token!.claims!)
  const chosen = issuers.find(({ issuer }) => isSameIssuer(iss, issuer))
  if (!chosen) throw issuerRefusal(iss, issuers.map(({ issuer }) => issuer))
  e.issuer = chosen
  verifyOffered(e.credentials!, e.issuer.dpopMode)
}

const NO_KEYS = 'This tool does not have the keys of the provider.'

async function findSigner (e: Examination) {
  if (!e.options.keys) throw new NotChecked(NO_KEYS)
  const { text, header = {} } = e.token!
  const keys = await e.options.keys(e.issuer!)
  const signer = await signerOf(text, header, keys, findSignerByCrypto)
  e.candidates = keys.candidates(header.kid as string | undefined, header.alg as JwsAlg).length
  if (signer === 'key_unknown') throw new Refusal('token_key_unknown')
  e.signer = signer
}

function requireSigner (e: Examination) {
  const { signer } = e
  if (signer === 'signature') throw new Refusal('token_signature')
  // Without keys the claims are used unverified, so that the later steps can be judged.
  know(e, e.token!.claims as TokenClaims, signer !== undefined)
  if (!e.verified!.isTrusted()) throw new NotChecked(NO_KEYS)
}

/** Takes the claims for those of the token. Trust does not change while a request is explained. */
export function know (e: Examination, claims: TokenClaims, isTrusted: boolean): void {
  e.verified = createVerifiedToken({ text: e.token!.text, claims, isTrusted: () => isTrusted, issuer: e.issuer! })
}
