import { METHODS } from 'node:http'
import { Message } from '../message.ts'
import type { ReceivedRequest } from '../message.ts'
import type { RequestUrl } from '../url/client-url.ts'
import { originForm } from './path.ts'
import { CLAIM_PREFIX } from './told.ts'
import { readToldUrl } from '../url/request-url.ts'

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
 * @param resolveUrl tells the URL of the question itself, which in Envoy's form is the original but for the path of the endpoint
 * @throws QuestionError, Refusal host_invalid, target_path
 */
export function readOriginal (family: ProxyFamily, { received }: Message, rest: string, resolveUrl: (message: Message) => RequestUrl): OriginalRequest {
  const lines = readLines(received)
  const stranger = ALL_NAMES.find(name => lines.has(name) && !NAMES[family].includes(name))
  if (stranger !== undefined) throw new QuestionError(`The question has the header ${stranger}, which another kind of proxy sends.`)
  switch (family) {
    case 'original': {
      const text = only(lines, 'x-original-url')
      return { method: methodOf(only(lines, 'x-original-method')), target: originForm(text), url: readToldUrl(text) }
    }
    case 'forwarded': {
      const target = only(lines, 'x-forwarded-uri')
      if (!target.startsWith('/')) throw new QuestionError('The header x-forwarded-uri holds no path.')
      const text = `${only(lines, 'x-forwarded-proto')}://${authorityOf(only(lines, 'x-forwarded-host'))}${target}`
      return { method: methodOf(only(lines, 'x-forwarded-method')), target: originForm(target), url: readToldUrl(text) }
    }
    case 'envoy':
      if (!rest.startsWith('/')) throw new QuestionError('The question holds no path.')
      return { method: received.method!, target: originForm(rest), url: resolveUrl(new Message(aboutTarget(received, rest))) }
  }
}

/**
 * Refuses a question of nginx that has a claim of the client's own making. nginx passes on all headers that its configuration does not
 * name, and it cannot name those of every claim.
 * @param told the headers of claims that the upstream is told, in lower case. nginx replaces these.
 * @throws QuestionError
 */
export function verifyNoOwnClaim ({ rawHeaders }: Pick<ReceivedRequest, 'rawHeaders'>, told: ReadonlySet<string>): void {
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!.toLowerCase()
    if (name.startsWith(CLAIM_PREFIX) && !told.has(name)) throw new QuestionError('The original request has a header of a claim that the gate does not tell.')
  }
}

function aboutTarget ({ method, headers, rawHeaders, socket }: ReceivedRequest, url: string): ReceivedRequest {
  return { method, url, headers, rawHeaders, socket }
}

/** The values of each header that matters here, by its name in lower case. */
function readLines ({ rawHeaders }: ReceivedRequest): ReadonlyMap<string, readonly string[]> {
  const lines = new Map<string, string[]>()
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!.toLowerCase()
    if (!name.startsWith('x-')) continue
    const values = lines.get(name)
    if (values) values.push(rawHeaders[i + 1]!)
    else lines.set(name, [rawHeaders[i + 1]!])
  }
  return lines
}

function only (lines: ReadonlyMap<string, readonly string[]>, name: string): string {
  const [value, ...more] = lines.get(name) ?? []
  if (!value) throw new QuestionError(`The question needs the header ${name}.`)
  if (more.length > 0) throw new QuestionError(`The question has the header ${name} more than once.`)
  return value
}

/** Without a delimiter, which would move the border between host and path. */
function authorityOf (text: string): string {
  if (/[/?#\\@,\s]/.test(text)) throw new QuestionError('The header x-forwarded-host holds no host.')
  return text
}

function methodOf (text: string): string {
  if (!METHODS.includes(text)) throw new QuestionError('The original method is unknown.')
  return text
}
