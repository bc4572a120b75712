import { isIP } from 'node:net'
import type { ReceivedRequest } from '../message.ts'
import type { RequestUrl } from '../url/request-url.ts'
import type { IdentityHeaders } from './identity-headers.ts'
import { isWithheldName } from './withheld.ts'

/** Headers of one connection only (RFC 9110 section 7.6.1), and `Expect`, which this service answers itself. */
const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'proxy-authorization', 'te', 'trailer', 'transfer-encoding', 'upgrade', 'http2-settings'
])

/** Names and values in turn, as they stood on the wire. */
type RawHeaders = readonly string[]

/** The names that a Connection header lists, in lower case: they hold for one connection only. */
function connectionNames (headers: RawHeaders): ReadonlySet<string> {
  const names = new Set<string>()
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i]!.toLowerCase() !== 'connection') continue
    for (const name of headers[i + 1]!.toLowerCase().split(',')) names.add(name.trim())
  }
  return names
}

/** Where a request came from, for the headers that tell it. */
export interface ClientOrigin {
  readonly url: RequestUrl
  /** The addresses on the way, the client's first. */
  readonly addresses: readonly string[]
}

export interface PassedHeaders {
  readonly origin: ClientOrigin
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
    if (HOP_BY_HOP.has(name) || name === 'expect' || isKept(name, passCredentials)) continue
    // A client that names Host or Content-Length as headers of its connection would change what the upstream reads.
    if (ofConnection.has(name) && name !== 'host' && name !== 'content-length') continue
    headers.push(rawHeaders[i]!, rawHeaders[i + 1]!)
  }
  for (const [name, value] of Object.entries(identity)) headers.push(name, value)
  headers.push(...forwardedHeaders(origin))
  return headers
}

/** Whether a header of this name stays here. */
function isKept (name: string, passCredentials: boolean): boolean {
  return name === 'authorization' || name === 'dpop' ? !passCredentials : isWithheldName(name)
}

function forwardedHeaders ({ url: { scheme, host, path, ownPath }, addresses }: ClientOrigin): string[] {
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
  const ofConnection = connectionNames(rawHeaders)
  const headers = new Map<string, string[]>()
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!.toLowerCase()
    if (HOP_BY_HOP.has(name) || (ofConnection.has(name) && name !== 'content-length')) continue
    const values = headers.get(name)
    if (values) values.push(rawHeaders[i + 1]!)
    else headers.set(name, [rawHeaders[i + 1]!])
  }
  return headers
}

/** Whether a request has a body (RFC 9112 section 6.3). */
export function hasBody ({ headers }: Pick<ReceivedRequest, 'headers'>): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}
