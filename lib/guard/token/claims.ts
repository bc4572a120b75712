import { isJsonObject, type JsonObject } from '../../base/json.ts'
import { printable } from '../../base/printable.ts'
import { issuerSpellings } from '../provider/provider-url.ts'
import { Refusal } from '../../refusal.ts'

/** What the value of a claim must be. */
interface ClaimForm {
  /** In words for after "expected". */
  readonly expected: string
  readonly isMet: (value: unknown) => boolean
}

const isText = (value: unknown) => typeof value === 'string'

export const TEXT: ClaimForm = { expected: 'a text', isMet: isText }
export const NON_EMPTY_TEXT: ClaimForm = {
  expected: 'a text that is not empty',
  isMet: value => isText(value) && value !== ''
}
export const TEXTS: ClaimForm = {
  expected: 'a text or a list of texts',
  isMet: value => isText(value) || (Array.isArray(value) && value.every(isText))
}
export const NUMBER: ClaimForm = { expected: 'a number', isMet: Number.isFinite }

/** @throws Refusal token_claim_invalid, which names the claim and what was found, and holds no value of the token */
export function verifyForm (claims: JsonObject, claim: string, { expected, isMet }: ClaimForm): void {
  const value = claims[claim]
  if (!isMet(value)) throw new Refusal('token_claim_invalid', { detail: { claim, expected, found: kindOf(value) } })
}

function kindOf (value: unknown): string {
  if (value === undefined) return 'nothing'
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'a list'
  return value === '' ? 'an empty text' : `a ${typeof value}`
}

/** Claims are frozen and serialised by recursion, which fails at some thousand levels. Real claims have about ten. */
const MAX_DEPTH = 64

/** @throws Refusal token_claim_invalid */
export function verifyDepth (claims: JsonObject): void {
  for (const [claim, value] of Object.entries(claims)) {
    if (isDeeper(value, MAX_DEPTH - 1)) {
      throw new Refusal('token_claim_invalid', {
        detail: { claim: printable(claim), expected: `at most ${MAX_DEPTH} levels`, found: 'more' }
      })
    }
  }
}

function isDeeper (value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return levels === 0 || Object.values(value).some(member => isDeeper(member, levels - 1))
}

/** Whether an `iss` is a spelling of this issuer. */
export function isSameIssuer (iss: unknown, issuer: string): boolean {
  return iss === issuer || issuerSpellings(issuer).some(spelling => spelling === iss)
}

/** The claims that name the client of a token: RFC 9068 section 2.2, OpenID Connect, Okta and Entra. */
export const CLIENT_CLAIMS = ['client_id', 'azp', 'cid', 'appid'] as const

/** The client that a token was issued to, or undefined if no claim names it. */
export function clientOf (claims: object): string | undefined {
  return CLIENT_CLAIMS.map(name => (claims as JsonObject)[name]).find(value => typeof value === 'string')
}

/**
 * Who acts for the subject of a token now: the `sub` of the outermost `act` (RFC 8693 section 4.1). Inner ones are
 * history, and decide nothing. It is undefined if there is none.
 */
export function actorOf (claims: object): string | undefined {
  const { act } = claims as JsonObject
  const sub = isJsonObject(act) ? act.sub : undefined
  return typeof sub === 'string' ? sub : undefined
}
