import type { RefusalReason } from '../../lib/refusal.ts'
import type { DpopMode } from '../../lib/guard/credentials.ts'

export const SCHEMES = ['none', 'Bearer', 'DPoP', 'Other'] as const
export const TOKENS = ['unbound', 'bound', 'unusable', 'expired'] as const
export const PROOFS = ['none', 'good', 'bad', 'two', 'joined', 'empty'] as const

type SchemeCase = {
  mode: DpopMode,
  scheme: typeof SCHEMES[number],
  token: typeof TOKENS[number],
  proof: typeof PROOFS[number]
}

/**
 * What the guard says of a request by its mode, scheme, token and proof: the rules, written down a second time and in
 * another way than the guard has them.
 */
export function expectedOf ({ mode, scheme, token, proof }: SchemeCase): RefusalReason | 'accepted' {
  if (scheme === 'none') return 'credentials_missing'
  const offered = { DISABLED: ['Bearer'], ALLOWED: ['Bearer', 'DPoP'], REQUIRED: ['DPoP'] }[mode]
  if (!offered.includes(scheme)) return 'scheme_not_offered'
  if (token === 'unusable') return 'token_binding_unusable'
  if (token === 'expired') return 'token_expired'
  if (scheme === 'Bearer') {
    if (mode === 'DISABLED') return 'accepted'
    if (token === 'bound') return 'token_bound'
    return proof === 'none' ? 'accepted' : 'proof_beside_bearer'
  }
  if (token === 'unbound') return 'token_unbound'
  return ({
    none: 'proof_missing',
    empty: 'proof_missing',
    good: 'accepted',
    bad: 'htm_mismatch',
    two: 'proof_repeated',
    joined: 'proof_repeated'
  } as const)[proof]
}
