import { readPemByCrypto, type PemReader } from '../guard/provider/fetch-key-set.ts'
import { findSignerByCrypto } from '../guard/jose/signature.ts'
import type { SignerFinder } from '../guard/jose/signed-jwt.ts'

/** How keys are read and signatures verified. Every pair gives the same verdicts. */
export interface JwtTools {
  readonly createSignerFinder: () => SignerFinder
  readonly readPem: PemReader
  /** Loads what the first tokens need. */
  readonly load: () => void
}

/** By node:crypto alone. */
export const NODE_CRYPTO: JwtTools = {
  createSignerFinder: () => findSignerByCrypto,
  readPem: readPemByCrypto,
  load () {}
}

/** The key under which an app may carry other tools. */
export const kJwtTools = Symbol('holdfast.jwtTools')

/** An app that may carry other tools. */
export interface MayHaveJwtTools {
  readonly [kJwtTools]?: JwtTools
}
