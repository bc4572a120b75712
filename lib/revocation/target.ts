import { hash } from 'node:crypto'
import { withoutTrailingSlash } from '../guard/provider/provider-url.ts'
import { findClaim } from '../guard/requirement/judge.ts'
import { CLIENT_CLAIMS } from '../guard/token/claims.ts'
import type { VerifiedToken } from '../guard/token/verified-tokens.ts'

/** The parts of a token that a revocation can name. An issuer of `*` means all of them. */
export type RevocationTarget =
  | readonly ['sub' | 'sid' | 'jti' | 'client', string, string]
  | readonly ['claim' | 'email', string, string, string]
  | readonly ['issuer', string]
  | readonly ['jkt', string]

const MAX_KEY_CHARACTERS = 200

/**
 * The key of a target: short, whatever the length of its value. The trailing slash of an issuer makes no difference.
 * The issuer and the claim can be read in it (see `issuerOfKey` and `claimOfKey`).
 */
export function keyOf (target: RevocationTarget): string {
  const [kind, given, ...rest] = target
  const first = kind === 'jkt' ? given : withoutTrailingSlash(given)
  const key = JSON.stringify([kind, first, ...rest])
  if (key.length <= MAX_KEY_CHARACTERS) return key
  const told = rest.length > 1 ? [JSON.stringify(rest[0])] : []
  return [kind, hash('sha256', key, 'base64url'), ...told, kind === 'jkt' ? '' : first].join(' ')
}

/**
 * The issuer of the tokens that a key names, without a trailing slash, `*` for all. Of news: the transmitter. Undefined
 * for a `jkt`, which no issuer has made.
 */
export function issuerOfKey (key: string): string | undefined {
  if (!key.startsWith('[')) return key.slice(key.lastIndexOf(' ') + 1) || undefined
  if (key.startsWith('["jkt"')) return undefined
  const start = key.indexOf('","') + 3
  return key.slice(start, key.indexOf('"', start))
}

/**
 * What a value of a claim names. `sub` and `sid` are kinds of their own, so that all senders that mean them have the
 * same keys.
 */
export function claimTarget (claim: string, issuer: string, value: string): RevocationTarget {
  if (claim === 'sub' || claim === 'sid') return [claim, issuer, value]
  return ['claim', issuer, claim, claim === 'email' ? value.toLowerCase() : value]
}

/** What an address names in any claim: mail programs see no difference of case. */
export function emailTarget (claim: string, issuer: string, address: string): RevocationTarget {
  return claim === 'email' || !address.includes('@')
    ? claimTarget(claim, issuer, address)
    : ['email', issuer, claim, address.toLowerCase()]
}

/** The beginning of the key of a session or another claim. An issuer has no quote in it; a claim may. */
const CLAIM_KEY = /^(?:(?:\[")?(sid)[" ]|(?:\["(?:claim|email)","[^"]*",|(?:claim|email) \S+ )("(?:[^"\\]|\\.)*"))/

/** The claim whose value a key names. Undefined if it names another part of a token. */
export function claimOfKey (key: string): string | undefined {
  const [, session, claim] = CLAIM_KEY.exec(key) ?? []
  return claim === undefined ? session : JSON.parse(claim) as string
}

/** The claims that revocations name in the tokens of one issuer. */
interface ClaimNames {
  /** Claims that hold a session. */
  readonly session: readonly string[]
  /** Claims that other subjects are compared with, such as `email`. */
  readonly other: readonly string[]
}

/** Each issuer has its own: a session of one is not looked for where another has its own. */
export type ClaimNamesOf = (issuer: string) => ClaimNames

/** What a sender of events means by sessions and subjects. */
interface NamingSender {
  /** The issuers about whose tokens it speaks. */
  readonly about: readonly string[]
  /** False if the tokens have none. */
  readonly sessionClaim: string | false
  readonly others: readonly string[]
}

/**
 * Gives each issuer the names of the senders that speak about its tokens. If none does, operators name sessions by
 * `sid`; they name addresses by `email` anywhere. A session of no issuer in particular (`*`) may be in each of them.
 */
export function claimNamesOf (senders: readonly NamingSender[]): ClaimNamesOf {
  const spelled = senders.map(sender => ({ ...sender, about: sender.about.map(withoutTrailingSlash) }))
  return given => {
    const issuer = withoutTrailingSlash(given)
    const own = spelled.filter(({ about }) => issuer === '*' || about.includes(issuer))
    const sessions = own.flatMap(({ sessionClaim }) => sessionClaim === false ? [] : [sessionClaim])
    const others = issuer === '*' ? [] : own.flatMap(({ others }) => others)
    return {
      session: [...new Set(issuer === '*' || sessions.length === 0 ? ['sid', ...sessions] : sessions)],
      other: [...new Set(['email', ...others.filter(name => name !== 'sub')])]
    }
  }
}

/** The parts of a token that revocations use. */
export type RevocableToken = Pick<VerifiedToken, 'claims' | 'issuer' | 'binding'>

/** What a token is judged by. */
export interface RevocationFacts {
  /** The keys of all that a revocation can name in the token. */
  readonly keys: readonly string[]
  /** `iat`, in Unix seconds. */
  readonly issuedAt: number | undefined
  /** `auth_time`, in Unix seconds. Infinity if it is no time. It is undefined if there is none. */
  readonly loginAt: number | undefined
  /**
   * A claim that has more values than are compared, or an integer of which JSON has lost digits: whether it was revoked
   * by one of them cannot be said.
   */
  readonly uncertain?: string
}

/** Values of one claim that are compared. */
export const MAX_CLAIM_VALUES = 1000

/**
 * Reads what a token is judged by. A dotted name of a claim leads into objects, as in requirements. Numbers count as
 * their text, and a time that is a text as its number. Any other `iat` counts as missing.
 */
export function revocationFactsOf (
  { claims, issuer, binding: { jkt } }: RevocableToken,
  { session, other }: ClaimNames
): RevocationFacts {
  const byName = claims as unknown as Readonly<Record<string, unknown>>
  const named = [...new Set([...session, ...other])]
  const targets: RevocationTarget[] = [
    ['sub', issuer, claims.sub],
    emailTarget('sub', issuer, claims.sub),
    ['issuer', issuer],
    ...valuesOf(byName, 'jti').map(value => ['jti', issuer, value] as const)
  ]
  for (const value of new Set(CLIENT_CLAIMS.flatMap(name => valuesOf(byName, name)))) {
    targets.push(['client', issuer, value])
  }
  if (jkt !== undefined) targets.push(['jkt', jkt])
  for (const name of named) {
    for (const value of valuesOf(byName, name)) {
      targets.push(
        claimTarget(name, issuer, value),
        claimTarget(name, '*', value),
        emailTarget(name, issuer, value)
      )
    }
  }
  const uncertain = ['jti', ...CLIENT_CLAIMS, ...named].find(name =>
    [findClaim(byName, name)].flat().some((value, n) =>
      n >= MAX_CLAIM_VALUES || (typeof value === 'number' && Math.abs(value) > Number.MAX_SAFE_INTEGER)
    )
  )
  const loginAt = byName.auth_time === undefined ? undefined : asTime(byName.auth_time) ?? Infinity
  return { keys: [...new Set(targets.map(keyOf))], issuedAt: asTime(byName.iat), loginAt, uncertain }
}

function valuesOf (claims: Readonly<Record<string, unknown>>, name: string): string[] {
  return [findClaim(claims, name)].flat().slice(0, MAX_CLAIM_VALUES).filter(value =>
    typeof value === 'string' || typeof value === 'number'
  ).map(String)
}

function asTime (value: unknown): number | undefined {
  const time = typeof value === 'string' && /^\d{1,15}(?:\.\d{1,9})?$/.test(value) ? Number(value) : value
  return typeof time === 'number' && Number.isFinite(time) ? time : undefined
}
