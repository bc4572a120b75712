import { createHmac } from 'node:crypto'
import { isIP } from 'node:net'
import type { AuthScheme } from '../../guard/credentials.ts'
import type { DecidedRoute, RefusedBecause } from '../../guard/decisions.ts'
import { actorOf, clientOf } from '../../guard/token/claims.ts'
import type { VerifiedToken } from '../../guard/token/verified-tokens.ts'

/** A request that was decided about. Its token may have been verified although it was refused. */
interface DecidedRequest extends DecidedRoute {
  readonly id: string
  /** The address of its client as a trusted proxy says it, which may be any text. */
  readonly ip: string | undefined
  /** The address of the peer. A unix socket has none. */
  readonly peer: string | undefined
  /** The scheme that it used, if it is one of ours. */
  readonly scheme: AuthScheme | undefined
  /** Absent if none was verified. */
  readonly token: VerifiedToken | undefined
}

const PLAIN_ID = /^[A-Za-z0-9._-]{1,128}$/

/**
 * Makes the record of a decision: who, where, and why not. It never holds a token, a proof, a query, or words of a
 * client.
 * @param now Unix seconds
 * @param pseudonymKey with it, people, clients and tokens have pseudonyms
 */
export function createDecisionLine (
  { now, pseudonymKey }: { now: () => number, pseudonymKey: Buffer | undefined }
) {
  const named = (name: string | undefined) =>
    name === undefined || !pseudonymKey
      ? name
      : createHmac('sha256', pseudonymKey).update(name).digest('base64url')

  /** @param refused undefined if the request was admitted */
  return (
    { id, method, route, call, ip, peer, scheme, token }: DecidedRequest,
    refused: RefusedBecause | undefined
  ) => ({
    time: new Date(now() * 1000).toISOString(),
    event: 'decision',
    // An application may take ids from its clients.
    id: PLAIN_ID.test(id) ? id : undefined,
    decision: refused ? refused.isObserved ? 'observed' : 'refused' : 'admitted',
    reason: refused?.reason,
    status: refused?.status,
    method,
    route,
    call,
    ip: plainAddress(ip) ?? plainAddress(peer),
    scheme,
    ...token && {
      issuer: token.issuer,
      subject: named(token.claims.sub),
      client: named(clientOf(token.claims)),
      actor: named(actorOf(token.claims)),
      jti: named(jtiOf(token)),
      jkt: token.binding.jkt
    }
  })
}

/** Some providers identify an opaque token by its own text. */
function jtiOf ({ text, claims }: VerifiedToken): string | undefined {
  const { jti } = claims as { readonly jti?: unknown }
  return typeof jti === 'string' && jti !== text ? jti : undefined
}

/**
 * An IP address without port and zone, which some proxies write. An IPv4-mapped one is the IPv4 address in it.
 * Undefined for any other text.
 */
function plainAddress (text: string | undefined): string | undefined {
  if (text === undefined) return undefined
  const bare = isIP(text) === 0 ? /^\[?(.*?)\]?:\d+$/.exec(text)?.[1] ?? '' : text
  if (isIP(bare) === 0) return undefined
  const address = bare.split('%', 1)[0]!
  const mapped = /^::ffff:(\d+\.[\d.]+)$/i.exec(address)?.[1]
  return mapped ?? address
}
