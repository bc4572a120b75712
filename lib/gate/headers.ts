import { isIP } from 'node:net'
import { linesOf, type ReceivedRequest } from '../guard/message.ts'
import { valuesOf, type AnswerHeaders } from './upstream/answer.ts'
import type { RequestUrl } from '../guard/url/request-url.ts'
import { isIdentityName, plainName, type IdentityHeaders } from './identity-headers.ts'

/**
 * Headers of a client that an upstream may take for the word of the proxy before it: another path or method than the
 * one that the rule was chosen by, or another caller. `Proxy` becomes the variable HTTP_PROXY of a CGI program.
 * gunicorn takes SCRIPT_NAME from a proxy beside it, and takes that prefix off the path.
 */
const STEERING: ReadonlySet<string> = new Set([
  'x-original-url',
  'x-rewrite-url',
  'script-name',
  'x-script-name',
  'path-info',
  'x-http-method',
  'x-http-method-override',
  'x-method-override',
  'proxy',
  // RFC 9440 has both names.
  'client-cert',
  'client-cert-chain',
  'remote-user',
  'x-remote-user',
  'x-real-ip',
  'true-client-ip',
  'x-client-ip',
  'x-client-cert',
  'x-client-verify',
  'x-tls-client-cert',
  'x-arr-clientcert',
  'x-original-uri',
  'x-original-host',
  'x-sendfile-type',
  'x-accel-mapping',
  'x-request-id',
  'forwarded'
])
// Those after `ssl-client-` are of AWS, Azure, oauth2-proxy and WebAuth.
const STEERING_PREFIXES: readonly string[] = [
  'x-forwarded-',
  'x-ssl-client-',
  'ssl-client-',
  'x-amzn-mtls-',
  'x-amzn-oidc-',
  'x-ms-client-principal',
  'x-auth-request-',
  'x-webauth-'
]

/**
 * Whether a header of this name never goes from a client to the upstream, because it would be ours, or would lead the
 * upstream past the rule.
 */
export function isWithheldName (name: string): boolean {
  const read = plainName(name)
  return STEERING.has(read) || STEERING_PREFIXES.some(prefix => read.startsWith(prefix)) || isIdentityName(read) ||
    // The one with `-` was judged, and some upstreams read both by one name.
    (OF_MESSAGE.has(read) && name.toLowerCase() !== read)
}

/**
 * The same, with more names, or beginnings of names before a `*`.
 * @param more as `gate.withheldHeaders` has them
 */
export function createWithheld (more: readonly string[]): (name: string) => boolean {
  const names = new Set(more.filter(text => !text.endsWith('*')).map(plainName))
  const beginnings = more.filter(text => text.endsWith('*')).map(text => plainName(text.slice(0, -1)))
  return name => {
    const read = plainName(name)
    return isWithheldName(name) || names.has(read) || beginnings.some(beginning => read.startsWith(beginning))
  }
}

/** Headers of one connection only (RFC 9110 section 7.6.1). */
const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings'
])

/**
 * A client that names these as headers of its connection would change what the upstream reads: whose message it is,
 * where it ends, and as what its body was judged.
 */
export const OF_MESSAGE: ReadonlySet<string> = new Set([
  'host',
  'content-length',
  'transfer-encoding',
  'content-type',
  'content-encoding',
  'mcp-method',
  'mcp-name',
  'mcp-protocol-version',
  'mcp-session-id'
])

const NONE: ReadonlySet<string> = new Set()

/** The names that Connection headers list, in lower case. Most list none of a header. */
function connectionNames (values: readonly string[]): ReadonlySet<string> {
  if (!values.some(value => value !== 'keep-alive' && value !== 'close')) return NONE
  return new Set(values.flatMap(value => value.toLowerCase().split(',')).map(name => name.trim()))
}

interface PassedHeadersOptions {
  /** Whether the lines `Authorization` and `DPoP` go on now. */
  readonly passCredentials: () => boolean
  /** More names that never go on: see `createWithheld`. */
  readonly withheldHeaders?: readonly string[]
  /** Of the upstream, or undefined if it gets that of the client. */
  readonly host: string | undefined
}

/** What the gate itself says of a request. */
interface OwnHeaders {
  /** The URL that the client used, and the addresses on the way, the client's first. */
  readonly origin: { readonly url: RequestUrl, readonly addresses: readonly string[] }
  readonly identity: IdentityHeaders
  /** As the log has it. */
  readonly requestId: string
}

/** Names of headers, and their bytes, that are remembered. Clients send the same ones all the time. */
const MAX_NAMES = 1000
const MAX_NAME_BYTES = 64

/**
 * Makes the function that gives the headers that the upstream gets, names and values in turn: those of the client,
 * without those of its connection and without those that it may not write, and then ours.
 */
export function createUpstreamHeaders (
  { passCredentials, withheldHeaders = [], host }: PassedHeadersOptions
): (message: Pick<ReceivedRequest, 'rawHeaders'>, own: OwnHeaders) => string[] {
  const isWithheld = createWithheld(withheldHeaders)
  const verdicts = new Map<string, boolean>()

  /** Whether a header of the client goes on, unless it belongs to its connection. */
  function isPassed (written: string) {
    const known = verdicts.get(written)
    if (known !== undefined) return known
    const name = written.toLowerCase()
    if (name === 'authorization' || name === 'dpop') return passCredentials() && !isWithheld(name)
    // This service itself answers `Expect`.
    const verdict = !HOP_BY_HOP.has(name) && name !== 'expect' && (name !== 'host' || host === undefined) &&
      !isWithheld(name)
    if (verdicts.size === MAX_NAMES) verdicts.clear()
    if (name.length <= MAX_NAME_BYTES) verdicts.set(written, verdict)
    return verdict
  }

  return ({ rawHeaders }, { identity, origin, requestId }) => {
    const ofConnection = connectionNames(linesOf(rawHeaders, 'connection'))
    const headers: string[] = host === undefined ? [] : ['host', host]
    for (let i = 0; i < rawHeaders.length; i += 2) {
      const name = rawHeaders[i]!
      if (isPassed(name) && !isOfConnection(name, ofConnection)) headers.push(name, rawHeaders[i + 1]!)
    }
    for (const name in identity) headers.push(name, identity[name]!)
    headers.push('x-request-id', requestId)
    pushForwarded(headers, origin)
    return headers
  }
}

function isOfConnection (written: string, ofConnection: ReadonlySet<string>): boolean {
  if (ofConnection.size === 0) return false
  const name = written.toLowerCase()
  return ofConnection.has(name) && !OF_MESSAGE.has(name)
}

function pushForwarded (headers: string[], { url, addresses }: OwnHeaders['origin']) {
  const { scheme, host, path, ownPath } = url
  const client = addresses[0] ?? ''
  const version = isIP(client)
  const node = version === 0 ? 'unknown' : version === 6 ? `"[${client}]"` : client
  headers.push('x-forwarded-for', addresses.join(', '))
  // A client of HTTP/1.0 need not name it.
  if (host !== '') headers.push('x-forwarded-host', host)
  headers.push('x-forwarded-proto', scheme)
  if (path !== ownPath) headers.push('x-forwarded-prefix', path.slice(0, path.length - ownPath.length))
  headers.push('forwarded', `for=${node};${host && `host="${host}";`}proto=${scheme}`)
}

/**
 * The names of those headers of the upstream's answer that the client gets. A nonce is for proofs, which the gate
 * judges. Fastify keeps the headers of an answer in an object, whose prototype `__proto__` would be.
 */
export function namesForClient (headers: AnswerHeaders): string[] {
  const ofConnection = connectionNames(valuesOf(headers, 'connection'))
  return Object.keys(headers).filter(name =>
    !HOP_BY_HOP.has(name) && !isOfConnection(name, ofConnection) && name !== 'dpop-nonce' && name !== '__proto__'
  )
}
