import { hash } from 'node:crypto'
import type { JsonObject } from '../../base/json.ts'
import { decodeJsonObject, splitCompactJws, timeFault, type CompactJws } from '../jose/signed-jwt.ts'
import { Refusal } from '../../refusal.ts'
import type { ReplayStore } from '../replay/replay-store.ts'
import { verifyHtu, type RequestUrl } from '../url/request-url.ts'
import type { ClientKeys, ProofHeader } from './client-keys.ts'
import type { Nonces } from './nonces.ts'
import { importPublicJwk } from '../jose/public-key.ts'
import { verifySignature } from '../jose/signature.ts'

/** The claims of a proof (RFC 9449 section 4.2). Times in Unix seconds. */
interface ProofClaims {
  readonly jti: string
  readonly htm: string
  readonly htu: string
  readonly iat: number
  readonly ath: string
  readonly exp?: number
  readonly nbf?: number
  /** A string if it is usable (section 9). No other type is read. */
  readonly nonce?: unknown
}

export interface ProofPolicy {
  readonly iatOffsetSeconds: number
  readonly iatLeewaySeconds: number
  readonly keys: ClientKeys
  readonly replay: ReplayStore
  /** Absent if nonces are off. */
  readonly nonces: Nonces | undefined
  /** Whether the age by `iat` counts beside a nonce, too. Ignored unless given. */
  readonly nonceIat?: 'ignored' | 'checked'
}

/** A proof during the checks. Each check reads what earlier ones have found, and adds what it finds. */
export interface PresentedProof {
  readonly proof: string
  readonly method: string
  /** base64url SHA-256 of the access token, and the thumbprint that the token is bound to. */
  readonly tokenHash: string
  readonly tokenJkt: string
  /** The URL that the client used. @throws Refusal */
  readonly requestUrl: () => RequestUrl
  /** Unix seconds. */
  readonly now: number
  jws?: CompactJws
  header?: ProofHeader
  claims?: ProofClaims
  url?: RequestUrl
  /** The time at which this proof would be refused for its age, in Unix seconds. */
  expiresAt?: number
}

export interface ProofCheck {
  readonly name: string
  /** @throws Refusal */
  readonly run: (presented: PresentedProof, policy: ProofPolicy) => void
}

const MAX_PROOF_CHARACTERS = 8192
const MAX_JTI_CHARACTERS = 512

/** The checks of RFC 9449 section 4.3 that run before the signature check. Cheap checks come first. */
export const CHECKS_BEFORE_SIGNATURE = [
  { name: 'form', run: checkForm },
  {
    name: 'header',
    run: (presented, { keys }) => {
      presented.header = keys.readHeader(presented.jws!.header, presented.tokenJkt)
    }
  },
  { name: 'claims', run: checkClaims },
  {
    name: 'htm',
    run: ({ claims, method }) => {
      if (claims!.htm !== method) throw new Refusal('htm_mismatch')
    }
  },
  { name: 'htu', run: checkUrl },
  { name: 'iat', run: checkWindow },
  {
    name: 'ath',
    run: ({ claims, tokenHash }) => {
      if (claims!.ath !== tokenHash) throw new Refusal('ath_mismatch')
    }
  },
  {
    name: 'jkt',
    run: ({ header, tokenJkt }) => {
      if (header!.jkt === tokenJkt) return
      // What is no key at all, such as a point off its curve, is the proof's fault.
      throw new Refusal(importPublicJwk(header!.jwk) ? 'jkt_mismatch' : 'proof_key')
    }
  }
] as const satisfies readonly ProofCheck[]

/** The checks that run only after a good signature, before the `jti` is recorded. */
export const CHECKS_AFTER_SIGNATURE = [
  { name: 'nonce', run: checkNonce },
  { name: 'iat-beside-nonce', run: checkWindowBesideNonce }
] as const satisfies readonly ProofCheck[]

/** Called exactly once, and never inside a `try`. Errors are of the type Refusal. */
type ProofDone = (error: Error | null) => void

export type ProofVerifier = typeof verifyProof

/**
 * Runs every check of a proof except the replay check: those before the signature, the signature on the thread pool,
 * and the nonce.
 */
export function verifyProof (presented: PresentedProof, policy: ProofPolicy, done: ProofDone): void {
  const refusal = findRefusal(CHECKS_BEFORE_SIGNATURE, presented, policy)
  if (refusal) return done(refusal)
  verifyProofSignature(
    presented,
    policy,
    error => done(error ?? findRefusal(CHECKS_AFTER_SIGNATURE, presented, policy))
  )
}

function findRefusal (checks: readonly ProofCheck[], presented: PresentedProof, policy: ProofPolicy): Error | null {
  try {
    for (const check of checks) check.run(presented, policy)
    return null
  } catch (error) {
    return error as Error
  }
}

function checkForm (presented: PresentedProof) {
  if (presented.proof.length > MAX_PROOF_CHARACTERS) throw new Refusal('proof_too_large')
  presented.jws = splitCompactJws(presented.proof)
  if (!presented.jws) throw new Refusal('proof_malformed')
}

function checkClaims (presented: PresentedProof, { iatLeewaySeconds }: ProofPolicy) {
  const claims = decodeJsonObject(presented.jws!.payload)
  if (!claims) throw new Refusal('proof_malformed')
  if (!areProofClaims(claims)) throw new Refusal('proof_claim_invalid')
  presented.claims = claims
  const fault = timeFault(claims, presented.now, iatLeewaySeconds)
  if (fault) throw new Refusal(fault.claim === 'exp' ? 'proof_expired' : 'proof_not_yet_valid', fault)
}

function areProofClaims (claims: JsonObject): claims is JsonObject & ProofClaims {
  const { jti, htm, htu, iat, ath, exp, nbf } = claims
  return typeof jti === 'string' && jti.length >= 1 && jti.length <= MAX_JTI_CHARACTERS &&
    typeof htm === 'string' && typeof htu === 'string' && typeof ath === 'string' && Number.isFinite(iat) &&
    (exp === undefined || Number.isFinite(exp)) && (nbf === undefined || Number.isFinite(nbf))
}

function checkUrl (presented: PresentedProof) {
  presented.url = presented.requestUrl()
  verifyHtu(presented.claims!.htu, presented.url)
}

function checkWindow (presented: PresentedProof, policy: ProofPolicy) {
  // RFC 9449 section 11.1: a nonce of ours proves the age better than the client's clock.
  if (policy.nonces) return
  verifyWindow(presented, policy)
  presented.expiresAt = Math.floor(presented.claims!.iat) + policy.iatOffsetSeconds + 1
}

function verifyWindow ({ claims, now }: PresentedProof, { iatOffsetSeconds, iatLeewaySeconds }: ProofPolicy) {
  const { iat } = claims!
  // Clients write whole seconds. The last second counts to its end, or an offset of 0 would refuse all proofs.
  const oldest = Math.floor(now) - iatOffsetSeconds
  const newest = now + iatLeewaySeconds
  if (iat >= oldest && iat <= newest) return
  throw new Refusal(iat < oldest ? 'iat_too_old' : 'iat_in_future', {
    detail: { expected: `from ${oldest} to ${Math.floor(newest)}`, found: iat }
  })
}

/** Checks the signature under the proof's own key. An earlier check has tied this key to the token. */
export function verifyProofSignature (presented: PresentedProof, { keys }: ProofPolicy, done: ProofDone): void {
  const { header, jws } = presented as Required<PresentedProof>
  const key = keys.keyOf(header)
  if (!key) return done(new Refusal('proof_key'))
  const input = presented.proof.slice(0, jws.header.length + 1 + jws.payload.length)
  verifySignature(header.algorithm, key, input, jws.signature, isValid => {
    if (!isValid) return done(new Refusal('proof_signature'))
    keys.keep(jws.header, header, key)
    done(null)
  })
}

function checkNonce (presented: PresentedProof, { nonces }: ProofPolicy) {
  if (!nonces) return
  const { nonce } = presented.claims!
  if (typeof nonce !== 'string') throw new Refusal('nonce_missing')
  presented.expiresAt = nonces.expiryOf(nonce, presented.now)
  if (presented.expiresAt === undefined) {
    throw new Refusal(nonces.isOfAnotherProcess(nonce) ? 'nonce_of_another_instance' : 'nonce_stale')
  }
}

// After the nonce, so that a client with a wrong clock first gets a nonce, and with it our time (RFC 9110 section
// 6.6.1).
function checkWindowBesideNonce (presented: PresentedProof, policy: ProofPolicy) {
  if (policy.nonces && policy.nonceIat === 'checked') verifyWindow(presented, policy)
}

/**
 * Records the `jti`, which must be new (RFC 9449 section 11.1). It comes last, so that a proof that is refused for
 * another reason stays unused.
 */
export function recordProof (
  presented: PresentedProof,
  { replay }: Pick<ProofPolicy, 'replay'>,
  done: ProofDone
): void {
  // The thumbprint has a fixed length, so no client can use up a jti of another one. Text, because a Buffer would cost
  // twice as much.
  const id = hash('sha256', presented.header!.jkt + presented.claims!.jti, 'binary')
  replay.record(id, presented.header!.jkt, presented.expiresAt!, (refusal, first) => {
    done(refusal ?? (first ? null : new Refusal('proof_replayed')))
  })
}
