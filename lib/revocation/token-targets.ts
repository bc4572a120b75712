import type { VerifiedToken } from '../token/verified-tokens.ts'
import { keyOf } from './entry.ts'
import type { RevocationTarget } from './entry.ts'
import { normalized } from './subject.ts'

/** The claims of access tokens that revocations name, whoever sends them. */
export interface ClaimNames {
  /** Claims that hold a session. */
  readonly session: readonly string[]
  /** Claims that other subjects are compared with, such as `email`. */
  readonly other: readonly string[]
}

/** A token, as far as revocations ask. */
export type RevocableToken = Pick<VerifiedToken, 'claims' | 'issuer' | 'binding'>

/** Values of one claim that are compared. A claim with more of them is no name of a subject. */
const MAX_VALUES = 20

/** The keys of all that a revocation can name in a token. */
export function revocationKeysOf ({ claims, issuer, binding: { jkt } }: RevocableToken, names: ClaimNames): readonly string[] {
  const byName = claims as unknown as Readonly<Record<string, unknown>>
  const targets: RevocationTarget[] = [['sub', issuer, claims.sub], ['issuer', issuer]]
  const { jti, client_id: clientId = byName.azp } = byName
  if (typeof jti === 'string') targets.push(['jti', issuer, jti])
  if (typeof clientId === 'string') targets.push(['client', issuer, clientId])
  if (jkt !== undefined) targets.push(['jkt', jkt])
  for (const value of names.session.flatMap(name => valuesOf(byName, name))) targets.push(['sid', issuer, value], ['sid', '*', value])
  for (const name of names.other) {
    for (const value of valuesOf(byName, name)) {
      const compared = normalized(name, value)
      targets.push(['claim', issuer, name, compared], ['claim', '*', name, compared])
    }
  }
  return targets.map(keyOf)
}

function valuesOf (claims: Readonly<Record<string, unknown>>, name: string): string[] {
  if (!Object.hasOwn(claims, name)) return []
  return [claims[name]].flat().slice(0, MAX_VALUES).filter(value => typeof value === 'string' || typeof value === 'number').map(String)
}
