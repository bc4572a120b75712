import { isIP } from 'node:net'
import { linesOf } from '../message.ts'
import type { ReceivedRequest } from '../message.ts'
import type { RequestUrl } from '../url/request-url.ts'
import { isIdentityName, plainName } from './identity-headers.ts'
import type { IdentityHeaders } from './identity-headers.ts'

/** Names and values in turn, as they were on the wire. */
type RawHeaders = readonly string[]

/**
 * The values of each header in their order, by name.
 * @param nameOf names that become one are one header. Default: in lower case
 */
export function linesByName (rawHeaders: RawHeaders, nameOf = (name: string): string => name.toLowerCase()): Map<string, string[]> {
  const lines = new Map<string, string[]>()
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = nameOf(rawHeaders[i]!)
    const values = lines.get(name)
    if (values) values.push(rawHeaders[i + 1]!)
    else lines.set(name, [rawHeaders[i + 1]!])
  }
  return lines
}

/**
 * Headers of a client that an upstream may take for the word of the proxy before it: another path or method than the one that the rule was
 * chosen by, or another caller. `Proxy` becomes the variable HTTP_PROXY of a CGI program.
 */
const STEERING: ReadonlySet<string> = new Set([
  'x-original-url', 'x-rewrite-url', 'x-http-method', 'x-http-method-override', 'x-method-override', 'proxy',
  // RFC 9440 has both names.
  'client-cert', 'client-cert-chain', 'remote-user', 'x-remote-user', 'x-real-ip', 'forwarded'
])
const STEERING_PREFIXES: readonly string[] = ['x-forwarded-', 'x-ssl-client-']

/** Whether a header of this name never goes from a client to the upstream, because it would be ours, or would lead the upstream past the rule. */
export function isWithheldName (name: string): boolean {
  const read = plainName(name)
  return STEERING.has(read) || STEERING_PREFIXES.some(prefix => read.startsWith(prefix)) || isIdentityName(read)
}

/** Headers of one connection only (RFC 9110 section 7.6.1). */
const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'proxy-authorization', 'te', 'trailer', 'transfer-encoding', 'upgrade', 'http2-settings'
])

/** The names that Connection headers list, in lower case. */
function connectionNames (rawHeaders: RawHeaders): ReadonlySet<string> {
  return new Set(linesOf(rawHeaders, 'connection').flatMap(line => line.toLowerCase().split(',')).map(name => name.trim()))
}

export interface PassedHeaders {
  /** The URL that the client used, and the addresses on the way, the client's first. */
  readonly origin: { readonly url: RequestUrl, readonly addresses: readonly string[] }
  readonly identity: IdentityHeaders
  readonly passCredentials: boolean
}

/**
 * The headers that the upstream gets, names and values in turn: those of the client, without those of its connection and without those
 * that it may not write (`isWithheldName`), and then ours. The client's Host stays.
 */
export function headersForUpstream ({ rawHeaders }: Pick<ReceivedRequest, 'rawHeaders'>, { origin, identity, passCredentials }: PassedHeaders): string[] {
  const ofConnection = connectionNames(rawHeaders)
  const headers: string[] = []
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!.toLowerCase()
    // This service itself answers `Expect`.
    if (HOP_BY_HOP.has(name) || name === 'expect') continue
    if (name === 'authorization' || name === 'dpop' ? !passCredentials : isWithheldName(name)) continue
    // A client that names Host or Content-Length as headers of its connection would change what the upstream reads.
    if (ofConnection.has(name) && name !== 'host' && name !== 'content-length') continue
    headers.push(rawHeaders[i]!, rawHeaders[i + 1]!)
  }
  return [...headers, ...Object.entries(identity).flat(), ...forwardedHeaders(origin)]
}

function forwardedHeaders ({ url: { scheme, host, path, ownPath }, addresses }: PassedHeaders['origin']): string[] {
  const prefix = path.slice(0, path.length - ownPath.length)
  const client = addresses[0] ?? ''
  const node = isIP(client) === 0 ? 'unknown' : isIP(client) === 6 ? `"[${client}]"` : client
  return [
    'x-forwarded-for', addresses.join(', '),
    'x-forwarded-host', host,
    'x-forwarded-proto', scheme,
    ...(prefix === '' ? [] : ['x-forwarded-prefix', prefix]),
    'forwarded', `for=${node};host="${host}";proto=${scheme}`
  ]
}

/** The headers of the upstream's answer that the client gets, by name in lower case. Several lines stay several. */
export function headersForClient (rawHeaders: RawHeaders): ReadonlyMap<string, string[]> {
  const headers = linesByName(rawHeaders)
  const ofConnection = connectionNames(rawHeaders)
  for (const name of headers.keys()) if (HOP_BY_HOP.has(name) || (ofConnection.has(name) && name !== 'content-length')) headers.delete(name)
  return headers
}

/** Whether a request has a body (RFC 9112 section 6.3). */
export function hasBody ({ headers }: Pick<ReceivedRequest, 'headers'>): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}
