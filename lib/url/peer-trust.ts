import { compile } from '@fastify/proxy-addr'
import { memoize } from './memo.ts'

/** `true` for every peer, `false` for none, or addresses, CIDRs and the names `loopback`, `linklocal`, `uniquelocal`. */
export type TrustProxy = boolean | readonly string[]

/** A function of the app that decides about peers, as Fastify takes one. The peer is hop 0. Only `true` is trust. */
export type AppTrust = (address: string, hop: number) => boolean

const MAX_ADDRESSES = 256

/**
 * Makes the predicate that tells whether the forwarded headers of a peer count. An IPv4-mapped IPv6 address counts as the IPv4
 * address in it. A peer without an address (a unix socket, or a connection that is gone) is trusted only under `true`: a list names
 * addresses, so it cannot name such a peer.
 * Throws TypeError for an entry that is not an address, CIDR or name.
 */
export function createPeerTrust (trustProxy: TrustProxy | AppTrust): (remoteAddress: string | undefined) => boolean {
  if (trustProxy === true) return () => true
  if (trustProxy === false) return () => false
  if (typeof trustProxy === 'function') return (remoteAddress) => remoteAddress !== undefined && trustProxy(remoteAddress, 0) === true
  const matches = compile([...trustProxy])
  const verdictOn = memoize((address) => ({ trusted: matches(address, 0) }), MAX_ADDRESSES)
  return (remoteAddress) => remoteAddress !== undefined && verdictOn(remoteAddress)!.trusted
}
