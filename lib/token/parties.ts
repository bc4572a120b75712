import { isJsonObject } from '../json.ts'

type Claims = Readonly<Record<string, unknown>>

/** The claims that name the client of a token: RFC 9068 section 2.2, OpenID Connect, and what two providers write. */
const CLIENT_CLAIMS = ['client_id', 'azp', 'cid', 'appid'] as const

/** The client that a token was issued to. Undefined if no claim names it. */
export function clientOf (claims: object): string | undefined {
  return CLIENT_CLAIMS.map(name => (claims as Claims)[name]).find(value => typeof value === 'string')
}

/**
 * Who acts for the subject of a token now: the `sub` of the outermost `act` (RFC 8693 section 4.1). Inner ones are
 * history, and decide nothing. Undefined if there is none.
 */
export function actorOf (claims: object): string | undefined {
  const { act } = claims as Claims
  const sub = isJsonObject(act) ? act['sub'] : undefined
  return typeof sub === 'string' ? sub : undefined
}
