import { createPublicKey } from 'node:crypto'
import { certificateHeader, createCertificateReader } from '../lib/certificate/client-certificate.ts'
import { parseCredentials, readProofLine, verifyCertificate, verifyOffered, verifySchemeFits } from '../lib/guard/credentials.ts'
import { ALGORITHMS, verifySignature } from '../lib/jose/signature.ts'
import { CHECKS_AFTER_SIGNATURE, CHECKS_BEFORE_SIGNATURE, recordProof, verifyProofSignature } from '../lib/dpop/proof.ts'
import type { ProofCheck, ProofPolicy } from '../lib/dpop/proof.ts'
import { verifyLinesCounted } from '../lib/message.ts'
import { Refusal } from '../lib/refusal.ts'
import type { Revocation } from '../lib/revocation/cutoffs.ts'
import { lifetimeRefusal } from '../lib/revocation/revocations.ts'
import type { InquiryDone } from '../lib/token/inquiry.ts'
import { checkIssuer, issuerSpellings, readPresentedToken, TOKEN_CHECKS, unverifiedToken } from '../lib/token/jwt-checks.ts'
import type { TokenClaims } from '../lib/token/jwt-checks.ts'
import { isJwt } from '../lib/token/token-kind.ts'
import { isOptional } from '../lib/requirement/route-guard.ts'
import { isGuest } from '../lib/guard/admission.ts'
import { createVerifiedToken } from '../lib/token/verified-tokens.ts'
import { createPeerTrust } from '../lib/url/peer-trust.ts'
import { rulesOf } from './examination.ts'
import type { Examination } from './examination.ts'

/** Thrown by a step that cannot be judged here. The message says why. Later steps can still be judged. */
export class NotChecked extends Error {}

export interface Step {
  readonly name: string
  /** Only requests with the DPoP scheme reach this step. */
  readonly ofProof?: true
  /** Only tokens that are bound to a certificate reach this step. */
  readonly ofCertificate?: true
  /** Opaque tokens do not reach this step. */
  readonly ofJwt?: true
  /** Only tokens that the service asks their issuer about reach this step. */
  readonly ofIntrospection?: true
  /** Only if tokens can be revoked. */
  readonly ofRevocation?: true
  /** @throws Refusal, NotChecked */
  readonly run: (examination: Examination) => void | Promise<void>
}

/**
 * Every check of the guard by name, in the guard's order. Each one is the guard's own function, with the input that it would get
 * from a live request.
 */
export const STEPS: readonly Step[] = [
  { name: 'credentials', run: readCredentials },
  { name: 'domain', run: requireProvider },
  { name: 'token.form', run: readForm },
  ...TOKEN_CHECKS.slice(1).map(({ name, run }) => ({ name: `token.${name}`, ofJwt: true as const, run: name === 'iss' ? chooseIssuer : (e: Examination) => run(e.token!, rulesOf(e)) })),
  { name: 'token.key', ofJwt: true, run: findKeys },
  { name: 'token.signature', ofJwt: true, run: verifyTokenSignature },
  { name: 'token.introspection', ofIntrospection: true, run: askIssuer },
  { name: 'token.lifetime', ofRevocation: true, run: fitLifetime },
  { name: 'token.revocation', ofRevocation: true, run: judgeRevocation },
  { name: 'certificate', ofCertificate: true, run: fitCertificate },
  { name: 'scheme', run: fitScheme },
  { name: 'proof', ofProof: true, run: takeProof },
  ...CHECKS_BEFORE_SIGNATURE.map(({ name, run }) => ({ name: `proof.${name}`, ofProof: true as const, run: (e: Examination) => judgeProof(e, name, run) })),
  { name: 'proof.signature', ofProof: true, run: verifyProofKey },
  ...CHECKS_AFTER_SIGNATURE.map(({ name, run }) => ({ name: `proof.${name}`, ofProof: true as const, run: (e: Examination) => judgeAfterSignature(e, name, run) })),
  { name: 'proof.replay', ofProof: true, run: record },
  { name: 'requirement', run: judgeRequirements }
]

function readCredentials (e: Examination): void {
  verifyLinesCounted(e.message.received)
  const { requirements } = e.options
  try {
    e.credentials = parseCredentials(e.message, e.options.settings.idp.dpopMode)
  } catch (error) {
    if (!requirements?.length || !isOptional({ requirements }) || !isGuest(error, e.message)) throw error
    e.isGuest = true
  }
}

function requireProvider (e: Examination): void {
  if (e.options.settings.idp.issuers.length === 0) throw new Refusal('domain_has_scheme')
  e.token = { text: e.credentials!.token, now: e.options.now }
}

function readForm (e: Examination): void {
  const { text } = e.token!
  const ofOpaque = e.options.settings.idp.issuers.find(({ introspection }) => introspection && introspection.covers !== 'jwt')
  if (!ofOpaque || isJwt(text)) return readPresentedToken(e.token!)
  e.isOpaque = true
  e.issuer = ofOpaque
  verifyOffered(e.credentials!, ofOpaque.dpopMode)
}

function chooseIssuer (e: Examination): void {
  const { issuers } = e.options.settings.idp
  checkIssuer(e.token!, { issuer: issuers.map(({ issuer }) => issuer).join(' '), issuers: issuers.flatMap(({ issuer }) => issuerSpellings(issuer)) })
  e.issuer = issuers.find(({ issuer }) => issuerSpellings(issuer).includes(e.token!.claims!.iss as string))!
  verifyOffered(e.credentials!, e.issuer.dpopMode)
}

async function findKeys (e: Examination): Promise<void> {
  const { candidates } = e.options
  if (!candidates) throw new NotChecked('This tool does not have the keys of the provider.')
  const { kid, alg } = unverifiedToken(e.token!)
  e.candidates = await candidates(kid, alg, e.issuer!)
  if (e.candidates.length === 0) throw new Refusal('token_key_unknown')
}

async function verifyTokenSignature (e: Examination): Promise<void> {
  const { text, jws } = e.token!
  const { alg, claims } = unverifiedToken(e.token!)
  const { issuer, scopeClaims, dpopMode } = e.issuer!
  const input = text.slice(0, text.lastIndexOf('.'))
  let isSigned = false
  for (const candidate of e.candidates ?? []) {
    const isValid = await new Promise<boolean>(resolve => verifySignature(ALGORITHMS[alg], createPublicKey(candidate.pem), input, jws!.signature, resolve))
    if (isValid) isSigned = true
  }
  // Without keys the claims are used unverified, so that the later steps can be judged.
  if (isSigned || !e.candidates) e.verified = createVerifiedToken({ text, claims, isTrusted: trust(isSigned), issuer, dpopMode, scopeClaims })
  if (!e.candidates) throw new NotChecked('This tool does not have the keys of the provider.')
  if (!e.verified?.isTrusted()) throw new Refusal('token_signature')
}

/** Trust does not change while a request is explained. */
const trust = (isTrusted: boolean) => (): boolean => isTrusted

async function askIssuer (e: Examination): Promise<void> {
  const { introspect } = e.options
  const { text, now } = e.token!
  const { issuer, scopeClaims, dpopMode } = e.issuer!
  const know = (claims: TokenClaims): void => { e.verified = createVerifiedToken({ text, claims, isTrusted: trust(true), issuer, dpopMode, scopeClaims }) }
  if (e.isOpaque) {
    know({} as TokenClaims)
    e.areClaimsUnknown = true
  }
  if (!introspect) throw new NotChecked('The service asks the issuer about the token. This tool asks only with --introspect.')
  const inquiry = await introspect(e.issuer!)
  if (!e.isOpaque) return answerOf(done => inquiry.confirm(text, rulesOf(e), e.verified!.claims, done))
  e.token!.claims = await answerOf<TokenClaims>(done => inquiry.claimsOf(text, true, rulesOf(e), now, done))
  know(e.token!.claims as TokenClaims)
  e.areClaimsUnknown = false
}

function answerOf<Settled> (ask: (done: InquiryDone<Settled>) => void): Promise<Settled> {
  return new Promise((resolve, reject) => ask((error, inquired) => inquired ? resolve(inquired.settled) : reject(error)))
}

const UNKNOWN_CLAIMS = 'Only the issuer of an opaque token knows its claims, and it was not asked.'

function fitLifetime (e: Examination): void {
  if (e.areClaimsUnknown) throw new NotChecked(UNKNOWN_CLAIMS)
  const { exp, iat = e.options.now } = e.verified!.claims
  const refusal = lifetimeRefusal(exp, iat, e.options.settings.revocation!.retentionSeconds)
  if (refusal) throw refusal
}

function judgeRevocation (e: Examination): void {
  const { revocations = 'Only the running service knows what has been revoked: its store is the memory of the process.' } = e.options
  if (e.areClaimsUnknown) throw new NotChecked(UNKNOWN_CLAIMS)
  if (typeof revocations === 'string') throw new NotChecked(revocations)
  const refusal = revocations.refusalOf(e.verified!)
  if (!refusal) return
  e.revokedBy = refusal.detail as unknown as Revocation
  throw refusal
}

function judgeProof (e: Examination, name: string, run: ProofCheck['run']): void {
  if (name === 'jkt' && e.areClaimsUnknown) throw new NotChecked(UNKNOWN_CLAIMS)
  run(e.proof!, e.policy as ProofPolicy)
}

function fitCertificate (e: Examination): void {
  const { clientCertificate: source, trustProxy } = e.options.settings.server
  const { received } = e.message
  const header = certificateHeader(source)
  if (header === undefined) throw new NotChecked('Only the running service sees the certificate of a connection.')
  if (!(header in received.headers)) throw new NotChecked(`The captured request has no ${header}. The proxy adds it, so only a capture behind the proxy has it.`)
  verifyCertificate(e.verified!.binding, e.message, createCertificateReader({ source, isTrustedPeer: createPeerTrust(trustProxy) }))
}

function fitScheme (e: Examination): void {
  if (e.areClaimsUnknown) throw new NotChecked(UNKNOWN_CLAIMS)
  verifySchemeFits(e.credentials!.scheme, e.verified!.binding, e.message, e.issuer!.dpopMode)
}

function takeProof (e: Examination): void {
  const { tokenHash, binding } = e.verified!
  e.proof = { proof: readProofLine(e.message), method: e.request.method, tokenHash, tokenJkt: binding.jkt!, requestUrl: e.resolveUrl, now: e.options.now }
}

function verifyProofKey (e: Examination): Promise<void> {
  return settled(done => verifyProofSignature(e.proof!, e.policy as ProofPolicy, done))
}

function judgeAfterSignature (e: Examination, name: string, run: ProofCheck['run']): void {
  run(e.proof!, e.policy as ProofPolicy)
  if (name === 'nonce' && e.noncesAreUnknown) throw new NotChecked('The service makes its nonces from a secret that this tool does not have (DPOP_NONCE_SECRET).')
}

async function record (e: Examination): Promise<void> {
  const { replay } = e.options
  if (!replay) throw new NotChecked('Only the running service knows which proofs it has seen. A captured proof that was accepted once is refused if it is sent again.')
  await settled(done => recordProof(e.proof!, { replay }, done))
}

async function judgeRequirements (e: Examination): Promise<void> {
  if (!e.options.requirements) throw new NotChecked('This tool does not know what the route needs.')
  if (e.areClaimsUnknown && e.options.requirements.length > 0) throw new NotChecked(UNKNOWN_CLAIMS)
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
