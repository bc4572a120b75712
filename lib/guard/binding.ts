import type { CertificateReader } from '../certificate/client-certificate.ts'
import type { AuthScheme } from '../scheme.ts'
import type { Message } from '../message.ts'
import { Refusal } from '../refusal.ts'
import type { Binding } from '../token/verified-tokens.ts'
import type { DpopMode } from '../scheme.ts'

/**
 * A token that is bound to a certificate passes only with that certificate (RFC 8705 section 3). This comes before any word about the
 * scheme and the proof: it is about the token. For any other token nothing is read.
 * @throws Refusal certificate_missing, certificate_unreadable, certificate_mismatch
 */
export function verifyCertificate ({ x5tS256 }: Binding, { received }: Message, readCertificate: CertificateReader): void {
  if (x5tS256 !== undefined && readCertificate(received) !== x5tS256) throw new Refusal('certificate_mismatch')
}

/**
 * The scheme must fit the token: RFC 9449 section 7.1, and section 7.2 against the downgrade of a bound token.
 * @throws Refusal token_unbound, token_bound, proof_beside_bearer
 */
export function verifySchemeFits (scheme: AuthScheme, { jkt }: Binding, { dpopCount }: Message, mode: DpopMode): void {
  if (scheme === 'DPoP') {
    if (jkt === undefined) throw new Refusal('token_unbound')
  } else if (mode !== 'DISABLED') {
    if (jkt !== undefined) throw new Refusal('token_bound')
    if (dpopCount > 0) throw new Refusal('proof_beside_bearer')
  }
}

/**
 * The only proof of a request (RFC 9449 section 4.3, check 1).
 * @throws Refusal proof_missing, proof_repeated
 */
export function readProofLine ({ dpop, dpopCount }: Message): string {
  if (!dpop) throw new Refusal('proof_missing')
  // RFC 9110 section 5.3: an intermediary may have joined two lines with a comma.
  if (dpopCount > 1 || dpop.includes(',')) throw new Refusal('proof_repeated')
  return dpop
}
