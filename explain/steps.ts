import { certificateHeaders, createCertificateReader } from '../lib/certificate/client-certificate.ts'
import { readProofLine, verifyCertificate, verifySchemeFits } from '../lib/guard/guard.ts'
import { createSignerFinder } from '../lib/jose/signed-jwt.ts'
import type { JwsAlg } from '../lib/jose/signature.ts'
import {
  CHECKS_AFTER_SIGNATURE,
  CHECKS_BEFORE_SIGNATURE,
  recordProof,
  verifyProofSignature
} from '../lib/dpop/proof.ts'
import type { ProofCheck, ProofPolicy } from '../lib/dpop/proof.ts'
import { parseCredentials, verifyLinesCounted, verifyOffered } from '../lib/message.ts'
import { Refusal } from '../lib/refusal.ts'
import type { Revocation } from '../lib/revocation/cutoffs.ts'
import { lifetimeRefusal } from '../lib/revocation/revocations.ts'
import { isJwt } from '../lib/token/inquiry.ts'
import { isSameIssuer } from '../lib/token/claims.ts'
import { issuerRefusal, readIssuer, readPresentedToken, TOKEN_CHECKS } from '../lib/token/jwt-checks.ts'
import type { TokenClaims } from '../lib/token/jwt-checks.ts'
import { isOptional } from '../lib/requirement/route-guard.ts'
import { isGuest } from '../lib/guard/admission.ts'
import { createVerifiedToken } from '../lib/token/verified-tokens.ts'
import { createPeerTrust } from '../lib/url/base-url.ts'
import { rulesOf } from './examination.ts'
import type { Examination } from './examination.ts'

/** Thrown by a step that cannot be judged here. The message says why. Later steps can still be judged. */
export class NotChecked extends Error {}

export interface Step {
  readonly name: StepName
  /** Whether a request reaches this step, by what is known of it so far. Absent if every request does. */
  readonly applies?: (examination: Examination) => boolean
  /** @throws Refusal, NotChecked */
  readonly run: (examination: Examination) => void | Promise<void>
}

const isJwtToken = ({ isOpaque }: Examination): boolean => !isOpaque
const hasCertificate = ({ verified }: Examination): boolean => verified?.binding.x5tS256 !== undefined
const canBeRevoked = ({ options }: Examination): boolean => options.settings.revocation !== undefined
const mayNeedProof = ({ credentials, options }: Examination): boolean =>
  credentials ? credentials.scheme === 'DPoP' : options.settings.idp.dpopMode !== 'DISABLED'

/** The service asks the issuer of the token about it. */
function isIntrospected ({ issuer, isOpaque }: Examination): boolean {
  const covers = issuer?.introspection?.covers
  return isOpaque === true || (covers !== undefined && covers !== 'opaque')
}

const LISTED = [
  { name: 'credentials', run: readCredentials },
  { name: 'domain', run: requireProvider },
  { name: 'token.form', run: readForm },
  ...TOKEN_CHECKS.slice(1).map(({ name, run }) => ({
    name: `token.${name}` as const,
    applies: isJwtToken,
    run: name === 'iss' ? chooseIssuer : (e: Examination) => run(e.token!, rulesOf(e))
  })),
  { name: 'token.key', applies: isJwtToken, run: findKeys },
  { name: 'token.signature', applies: isJwtToken, run: verifyTokenSignature },
  { name: 'token.introspection', applies: isIntrospected, run: askIssuer },
  { name: 'token.lifetime', applies: canBeRevoked, run: fitLifetime },
  { name: 'token.revocation', applies: canBeRevoked, run: judgeRevocation },
  { name: 'certificate', applies: hasCertificate, run: fitCertificate },
  { name: 'scheme', run: fitScheme },
  { name: 'proof', applies: mayNeedProof, run: takeProof },
  ...CHECKS_BEFORE_SIGNATURE.map(({ name, run }) => ({
    name: `proof.${name}` as const,
    applies: mayNeedProof,
    run: (e: Examination) => judgeProof(e, name, run)
  })),
  { name: 'proof.signature', applies: mayNeedProof, run: verifyProofKey },
  ...CHECKS_AFTER_SIGNATURE.map(({ name, run }) => ({
    name: `proof.${name}` as const,
    applies: mayNeedProof,
    run: (e: Examination) => judgeAfterSignature(e, name, run)
  })),
  { name: 'proof.replay', applies: mayNeedProof, run: record },
  { name: 'requirement', run: judgeRequirements }
] as const satisfies ReadonlyArray<Omit<Step, 'name'> & { readonly name: string }>

/** The checks by name. Whatever shows them needs a text for each: see compared.ts. */
export type StepName = (typeof LISTED)[number]['name']

/**
 * Every check of the guard by name, in the guard's order. Each one is the guard's own function, with the input that it
 * would get from a live request.
 */
export const STEPS: readonly Step[] = LISTED

function readCredentials (e: Examination): void {
  verifyLinesCounted(e.message.received)
  const { requirements } = e.options
  try {
    e.credentials = parseCredentials(e.message, e.options.settings.idp.dpopMode)
  } catch (error) {
    if (!requirements?.length || !isOptional(requirements) || !isGuest(error, e.message)) throw error
    e.isGuest = true
  }
}

function requireProvider (e: Examination): void {
  if (e.options.settings.idp.issuers.length === 0) throw new Refusal('domain_has_scheme')
  e.token = { text: e.credentials!.token, now: e.options.now }
}

function readForm (e: Examination): void {
  const { text } = e.token!
  const ofOpaque = e.options.settings.idp.issuers.find(({ introspection }) =>
    introspection && introspection.covers !== 'jwt'
  )
  if (!ofOpaque || isJwt(text)) return readPresentedToken(e.token!)
  e.isOpaque = true
  e.issuer = ofOpaque
  verifyOffered(e.credentials!, ofOpaque.dpopMode)
}

function chooseIssuer (e: Examination): void {
  const { issuers } = e.options.settings.idp
  const iss = readIssuer(e.token!)
  const chosen = issuers.find(({ issuer }) => isSameIssuer(iss, issuer))
  if (!chosen) throw issuerRefusal(iss, issuers.map(({ issuer }) => issuer))
  e.issuer = chosen
  verifyOffered(e.credentials!, e.issuer.dpopMode)
}

async function findKeys (e: Examination): Promise<void> {
  const { candidates } = e.options
  if (!candidates) throw new NotChecked('This tool does not have the keys of the provider.')
  const { kid, alg } = signedHeader(e)
  e.candidates = await candidates(kid, alg, e.issuer!)
  if (e.candidates.length === 0) throw new Refusal('token_key_unknown')
}

/** That of a token whose header has passed. */
function signedHeader ({ token }: Examination): { readonly kid: string | undefined, readonly alg: JwsAlg } {
  return token!.header as ReturnType<typeof signedHeader>
}

function verifyTokenSignature (e: Examination): void {
  const isSigned = createSignerFinder()(e.token!.text, e.candidates ?? [], signedHeader(e).alg) !== undefined
  // Without keys the claims are used unverified, so that the later steps can be judged.
  if (isSigned || !e.candidates) know(e, e.token!.claims as TokenClaims, isSigned)
  if (!e.candidates) throw new NotChecked('This tool does not have the keys of the provider.')
  if (!e.verified?.isTrusted()) throw new Refusal('token_signature')
}

/** Takes the claims for those of the token. Trust does not change while a request is explained. */
function know (e: Examination, claims: TokenClaims, isTrusted: boolean): void {
  e.verified = createVerifiedToken({ text: e.token!.text, claims, isTrusted: () => isTrusted, issuer: e.issuer! })
}

async function askIssuer (e: Examination): Promise<void> {
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

/** @throws NotChecked if an opaque token was not introspected */
function requireClaims ({ areClaimsUnknown }: Examination): void {
  if (areClaimsUnknown) {
    throw new NotChecked('Only the issuer of an opaque token knows its claims, and it was not asked.')
  }
}

function fitLifetime (e: Examination): void {
  requireClaims(e)
  const { claims: { exp, iat } } = e.verified!
  const { settings: { idp, revocation }, now } = e.options
  const refusal = lifetimeRefusal(exp, iat, revocation!.retentionSeconds, now + idp.clockToleranceSeconds)
  if (refusal) throw refusal
}

function judgeRevocation (e: Examination): void {
  const {
    revocations = 'Only the running service knows what has been revoked: its store is the memory of the process.'
  } = e.options
  requireClaims(e)
  if (typeof revocations === 'string') throw new NotChecked(revocations)
  const refusal = revocations.refusalOf(e.verified!)
  if (!refusal) return
  e.revokedBy = refusal.detail as unknown as Revocation
  throw refusal
}

function judgeProof (e: Examination, name: string, run: ProofCheck['run']): void {
  if (name === 'jkt') requireClaims(e)
  run(e.proof!, e.policy as ProofPolicy)
}

function fitCertificate (e: Examination): void {
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

function fitScheme (e: Examination): void {
  requireClaims(e)
  verifySchemeFits(e.credentials!.scheme, e.verified!.binding, e.message, e.issuer!.dpopMode)
}

function takeProof (e: Examination): void {
  const { tokenHash, binding } = e.verified!
  e.proof = {
    proof: readProofLine(e.message),
    method: e.request.method,
    tokenHash,
    tokenJkt: binding.jkt!,
    requestUrl: e.resolveUrl,
    now: e.options.now
  }
}

function verifyProofKey (e: Examination): Promise<void> {
  return settled(done => verifyProofSignature(e.proof!, e.policy as ProofPolicy, done))
}

function judgeAfterSignature (e: Examination, name: string, run: ProofCheck['run']): void {
  run(e.proof!, e.policy as ProofPolicy)
  if (name === 'nonce' && e.noncesAreUnknown) {
    throw new NotChecked('The service makes its nonces from a secret that this tool does not have (DPOP_NONCE_SECRET).')
  }
}

async function record (e: Examination): Promise<void> {
  const { replay } = e.options
  if (!replay) {
    throw new NotChecked(
      'Only the running service knows which proofs it has seen. A captured proof that was accepted once is ' +
        'refused if it is sent again.'
    )
  }
  await settled(done => recordProof(e.proof!, { replay }, done))
}

async function judgeRequirements (e: Examination): Promise<void> {
  if (!e.options.requirements) throw new NotChecked('This tool does not know what the route needs.')
  if (e.options.requirements.length > 0) requireClaims(e)
  for (const requirement of e.options.requirements) {
    try {
      await e.judge(e.verified!, requirement)
    } catch (error) {
      if (error instanceof Refusal) throw error
      throw new NotChecked(`${(error as Error).message} here. If it fails in the service too, the answer is 500.`)
    }
  }
}

function settled (run: (done: (error: Error | null) => void) => void): Promise<void> {
  return new Promise((resolve, reject) => run(error => error ? reject(error) : resolve()))
}
