import type { KeyObject } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { Refusal } from '../../refusal.ts'
import { algDetail, decodeJsonObject, headerFault, isMediaType } from '../jose/signed-jwt.ts'
import { ALGORITHMS, type AlgorithmSpec, type JwsAlg } from '../jose/signature.ts'
import { importPublicJwk, readPublicJwk, thumbprint, type PublicJwk } from '../jose/public-key.ts'

/** The header of a proof: its algorithm and its key (RFC 9449 section 4.2). */
export interface ProofHeader {
  readonly algorithm: AlgorithmSpec
  readonly jwk: PublicJwk
  /** RFC 7638 thumbprint of `jwk`. */
  readonly jkt: string
}

/** A client's key, with the last header that carried it. */
interface KeptHeader extends ProofHeader {
  readonly encoded: string | undefined
  readonly key: KeyObject
}

// A P-256 key takes 7 KB in all, most of it outside of V8's heap, an RSA key of 4096 bits 9 KB. All keys together take
// at most 180 MB.
const MAX_KEYS = 20_000
const MAX_HEADER_CHARACTERS = 1_200
// V8 does not see the memory outside of its heap: a key that was kept stays there until the next full collection, one
// that was never kept goes with the next small one. With rare replacements, a flood of new keys neither fills the
// memory nor evicts the keys in use.
const MS_BETWEEN_REPLACEMENTS = 15

interface ClientKeysOptions {
  readonly maxKeys?: number
  /** Milliseconds from any start. The clock is never set back. */
  readonly nowMs: () => number
}

export type ClientKeys = ReturnType<typeof createClientKeys>

/**
 * Reads proof headers and keeps the keys of clients whose proofs were accepted. Keys of refused proofs are never kept.
 * @param algs the accepted values of `alg`
 */
export function createClientKeys (algs: readonly JwsAlg[], { maxKeys = MAX_KEYS, nowMs }: ClientKeysOptions) {
  // With `max` it would take the memory of all entries at once.
  const cache = new LRUCache<string, KeptHeader>({ maxSize: maxKeys, sizeCalculation: () => 1 })
  let nextReplacementMs = nowMs()
  let hits = 0
  let misses = 0

  return {
    /**
     * Reads the header segment of a proof. A known header is found under the thumbprint that the token is bound to.
     * @throws Refusal proof_*
     */
    readHeader (encoded: string, tokenJkt: string): ProofHeader {
      const known = cache.get(tokenJkt)
      return known?.encoded === encoded ? known : parseProofHeader(encoded, algs)
    },
    /** Returns undefined if no key can be made of the JWK, for example because its point is not on the curve. */
    keyOf (header: ProofHeader): KeyObject | undefined {
      const key = isKept(header) ? header.key : cache.get(header.jkt)?.key
      if (key) hits++
      else misses++
      return key ?? importPublicJwk(header.jwk)
    },
    /**
     * Called after a proof with this header was accepted. While the memory is full, a new key replaces another one only
     * now and then.
     */
    keep (encoded: string, header: ProofHeader, key: KeyObject) {
      if (isKept(header)) return
      const { algorithm, jwk, jkt } = header
      if (cache.size === maxKeys) {
        const now = nowMs()
        if (now < nextReplacementMs) return
        nextReplacementMs = now + MS_BETWEEN_REPLACEMENTS
      }
      cache.set(jkt, {
        encoded: encoded.length <= MAX_HEADER_CHARACTERS ? flatCopy(encoded) : undefined,
        algorithm,
        jwk,
        jkt,
        key
      })
    },
    /** The number of entries, and the number of lookups that found one. */
    state: () => ({ entries: cache.size, hits, misses })
  }
}

function isKept (header: ProofHeader | KeptHeader): header is KeptHeader {
  return 'key' in header
}

/**
 * Reads the header segment of a proof (RFC 9449 section 4.2). @throws Refusal proof_malformed, proof_type,
 * proof_algorithm, proof_critical, proof_key
 */
export function parseProofHeader (encoded: string, algs: readonly JwsAlg[]): ProofHeader {
  const header = decodeJsonObject(encoded)
  if (!header) throw new Refusal('proof_malformed')
  const fault = headerFault(header, algs, isProofType)
  // The key is in the header: a `kid` says nothing.
  if (fault && fault !== 'kid') {
    throw new Refusal(HEADER_REASONS[fault], { detail: fault === 'alg' ? algDetail(header, algs) : undefined })
  }
  const alg = header.alg as JwsAlg
  const jwk = readPublicJwk(header.jwk, alg, 'proof')
  if (typeof jwk === 'string') throw new Refusal('proof_key')
  return { algorithm: ALGORITHMS[alg], jwk, jkt: thumbprint(jwk) }
}

const HEADER_REASONS = { typ: 'proof_type', alg: 'proof_algorithm', crit: 'proof_critical' } as const

function isProofType (typ: unknown): boolean {
  return isMediaType(typ, 'dpop+jwt')
}

// A slice keeps alive the whole text that it was cut from: up to 8 KiB of a proof for a header of 200 characters.
function flatCopy (text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1')
}
