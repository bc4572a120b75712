import { METHODS } from 'node:http'
import type { Message, ReceivedRequest } from '../message.ts'
import { Refusal } from '../refusal.ts'
import type { BaseUrl } from '../url/base-url.ts'
import { parseScheme, parseWireAuthority, splitHttpUrl } from '../url/http-url.ts'
import type { Authority, HttpScheme } from '../url/http-url.ts'
import { joinRequestUrl } from '../url/request-url.ts'
import type { RequestUrl } from '../url/request-url.ts'
import { CLAIM_PREFIX } from './identity-headers.ts'
import { originForm } from './path.ts'

/** The request that a proxy asks about. */
export interface OriginalRequest {
  readonly method: string
  /** Path and query, as the client sent them. */
  readonly target: string
  readonly url: RequestUrl
}

/** How a family of proxies tells the original request. */
export type ProxyFamily = 'original' | 'forwarded' | 'envoy'

/** The question cannot be answered. The message says why, and holds nothing of the request. */
export class QuestionError extends Error {
  override readonly name = 'QuestionError'
}

/** The headers that tell a method or a URL, by family. A question holds those of its own family, and no others. */
const NAMES: Readonly<Record<ProxyFamily, readonly string[]>> = {
  original: ['x-original-method', 'x-original-url'],
  forwarded: ['x-forwarded-method', 'x-forwarded-uri'],
  envoy: []
}
const ALL_NAMES: readonly string[] = Object.values(NAMES).flat()

/**
 * Reads the request that a proxy asks about. Only lines with exactly these names count: a name with `_` for `-` is another name.
 * @param rest the target behind the path of the endpoint
 * @throws QuestionError, Refusal host_repeated, target_path
 */
export function readOriginal (family: ProxyFamily, message: Message, rest: string): OriginalRequest {
  const lines = readLines(message.received)
  const stranger = ALL_NAMES.find(name => lines.has(name) && !NAMES[family].includes(name))
  if (stranger !== undefined) refuse(`The question has the header ${stranger}, which another kind of proxy sends.`)
  switch (family) {
    case 'original': {
      const name = 'x-original-url'
      const { scheme, authority, rest: target } = splitHttpUrl(only(lines, name)) ?? refuse(`The header ${name} holds no absolute URL.`)
      return originalOf(only(lines, 'x-original-method'), scheme, authorityOf(authority, name), target)
    }
    case 'forwarded': {
      const [target, host] = [only(lines, 'x-forwarded-uri'), 'x-forwarded-host']
      return originalOf(only(lines, 'x-forwarded-method'), forwardedScheme(lines), authorityOf(only(lines, host), host), target)
    }
    case 'envoy':
      if (message.hostCount > 1) throw new Refusal('host_repeated')
      // Another forwarded header than that of the scheme may be the client's: Envoy replaces this one alone. Where it is not passed on, the
      // scheme is that of the question, which Envoy asks over plain HTTP or over TLS that ends here.
      return originalOf(message.method, lines.has('x-forwarded-proto') ? forwardedScheme(lines) : message.encrypted ? 'https' : 'http', authorityOf(message.host ?? '', 'host'), rest)
  }
}

function originalOf (method: string, scheme: HttpScheme, authority: Authority, target: string): OriginalRequest {
  // What follows in a tunnel would be for no rule. Some proxies pass it on, Traefik over HTTP/2 for one.
  if (method === 'CONNECT') refuse('The original request asks for a tunnel.')
  if (!METHODS.includes(method)) refuse('The original method is unknown.')
  // `http://api.example?/x` tells no path, and none is added.
  if (!target.startsWith('/')) refuse('The question holds no path.')
  return { method, target: originForm(target), url: joinRequestUrl(scheme, authority, target) }
}

/**
 * Refuses a request that a client has sent to another scheme and authority than those of PUBLIC_URL.
 * @throws QuestionError
 */
export function verifyPublicOrigin ({ scheme, host }: RequestUrl, publicUrl: BaseUrl): void {
  if (scheme !== publicUrl.scheme || host !== publicUrl.host) refuse('The original request is for another scheme or authority than that of PUBLIC_URL.')
}

/**
 * Refuses a question of nginx that has a claim of the client's own making. nginx passes on all headers that its configuration does not
 * name, and it cannot name those of every claim.
 * @param forwarded the headers of claims that the upstream gets, in lower case. nginx replaces these.
 * @throws QuestionError
 */
export function verifyNoOwnClaim ({ rawHeaders }: Pick<ReceivedRequest, 'rawHeaders'>, forwarded: ReadonlySet<string>): void {
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!.toLowerCase()
    if (name.startsWith(CLAIM_PREFIX) && !forwarded.has(name)) throw new QuestionError('The original request has a header of a claim that the gate does not set.')
  }
}

/** Envoy says with it whether a body that it sends is the beginning of the original one only. */
export const PARTIAL_BODY = 'x-envoy-auth-partial-body'

/**
 * Refuses a question of Envoy with a part of the original body, or with one of which Envoy does not say that it is whole.
 * @throws QuestionError
 */
export function verifyWholeBody (received: ReceivedRequest): void {
  if (only(readLines(received), PARTIAL_BODY) !== 'false') refuse('The question has only a part of the original body.')
}

/** The values of each header, by its name in lower case. */
function readLines ({ rawHeaders }: ReceivedRequest): ReadonlyMap<string, readonly string[]> {
  const lines = new Map<string, string[]>()
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!.toLowerCase()
    const values = lines.get(name)
    if (values) values.push(rawHeaders[i + 1]!)
    else lines.set(name, [rawHeaders[i + 1]!])
  }
  return lines
}

function only (lines: ReadonlyMap<string, readonly string[]>, name: string): string {
  const [value, ...more] = lines.get(name) ?? []
  if (!value) throw new QuestionError(`The authorization request lacks the header ${name}.`)
  if (more.length > 0) throw new QuestionError(`The question has the header ${name} more than once.`)
  return value
}

function forwardedScheme (lines: ReadonlyMap<string, readonly string[]>): HttpScheme {
  const name = 'x-forwarded-proto'
  return parseScheme(only(lines, name)) ?? refuse(`The header ${name} holds no scheme.`)
}

function authorityOf (text: string, header: string): Authority {
  return parseWireAuthority(text) ?? refuse(`The header ${header} holds no host.`)
}

function refuse (fault: string): never {
  throw new QuestionError(fault)
}
