import { hash } from 'node:crypto'
import { withoutTrailingSlash } from '../provider/provider-url.ts'
import type { VerifiedToken } from '../token/verified-tokens.ts'

/** The parts of a token that a revocation can name. An issuer of `*` means all of them. */
export type RevocationTarget =
  | readonly ['sub' | 'sid' | 'jti' | 'client', string, string]
  | readonly ['claim', string, string, string]
  | readonly ['issuer', string]
  | readonly ['jkt', string]

const MAX_KEY_CHARACTERS = 200

/** The key of a target: short, whatever the length of its parts. The trailing slash of an issuer makes no difference. */
export function keyOf (target: RevocationTarget): string {
  const [kind, ...rest] = target
  const parts = kind === 'jkt' ? rest : [withoutTrailingSlash(rest[0]!), ...rest.slice(1)]
  const key = JSON.stringify([kind, ...parts])
  return key.length <= MAX_KEY_CHARACTERS ? key : `${kind} ${hash('sha256', key, 'base64url')}`
}

/** The issuer of the tokens that a target names, without a trailing slash. `*`: all of them. Undefined for a key, which no issuer has made. */
export function issuerOf ([kind, issuer]: RevocationTarget): string | undefined {
  return kind === 'jkt' ? undefined : withoutTrailingSlash(issuer)
}

/** The value of a claim as it is compared: mail programs see no difference of case in an address. */
export function normalized (claim: string, value: string): string {
  return claim === 'email' ? value.toLowerCase() : value
}

/** The claims of access tokens that revocations name, whoever sends them. */
export interface ClaimNames {
  /** Claims that hold a session. */
  readonly session: readonly string[]
  /** Claims that other subjects are compared with, such as `email`. */
  readonly other: readonly string[]
}

/** The parts of a token that revocations use. */
export type RevocableToken = Pick<VerifiedToken, 'claims' | 'issuer' | 'binding'>

/** What a token is judged by. */
export interface RevocationFacts {
  /** The keys of all that a revocation can name in the token. */
  readonly keys: readonly string[]
  /** `iat`, in Unix seconds. */
  readonly issuedAt: number | undefined
  /** `auth_time`, in Unix seconds. */
  readonly loginAt: number | undefined
}

/** Values of one claim that are compared. A claim with more of them is no name of a subject. */
const MAX_VALUES = 20

/** Reads what a token is judged by. A time that is no number counts as missing. */
export function revocationFactsOf ({ claims, issuer, binding: { jkt } }: RevocableToken, names: ClaimNames): RevocationFacts {
  const byName = claims as unknown as Readonly<Record<string, unknown>>
  const targets: RevocationTarget[] = [['sub', issuer, claims.sub], ['issuer', issuer]]
  const { jti, client_id: clientId = byName.azp, iat, auth_time: loginAt } = byName
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
  return { keys: targets.map(keyOf), issuedAt: asTime(iat), loginAt: asTime(loginAt) }
}

function valuesOf (claims: Readonly<Record<string, unknown>>, name: string): string[] {
  if (!Object.hasOwn(claims, name)) return []
  return [claims[name]].flat().slice(0, MAX_VALUES).filter(value => typeof value === 'string' || typeof value === 'number').map(String)
}

function asTime (value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined
}
