import { Readable } from 'node:stream'
import type { Context } from 'oidc-provider'
import { asObject, parseJson, readAtMost } from '../../cli/input.ts'
import { TOKEN_PATH } from './tenant-configuration.ts'

/** More than any token request needs. */
const MAX_BYTES = 32 * 1024

/** What the client sent cannot be read; the message is its `error_description`. */
class BadTokenRequest extends Error {}

/**
 * Hosted providers accept `audience` for the `resource` of RFC 8707, and JSON for the form of RFC 6749 section 4.4.2.
 * So does this one: the rest of the provider gets `resource` and a form.
 */
export async function takeAudience (context: Context, next: () => Promise<void>): Promise<void> {
  if (context.path === '/authorize') context.querystring = withResource(new URLSearchParams(context.querystring))
  if (context.method !== 'POST' || ![TOKEN_PATH, '/request'].includes(context.path)) return next()
  const text = await readAtMost(context.req, MAX_BYTES)
  if (text === undefined) return refuse(context, 413, 'the body is too large')
  try {
    giveBody(context, withResource(isJson(context) ? formOfJson(text) : new URLSearchParams(text)))
  } catch (error) {
    if (error instanceof BadTokenRequest) return refuse(context, 400, error.message)
    throw error
  }
  return next()
}

/** RFC 6749 section 5.2; any origin may read it, because it contains no secret. */
function refuse (context: Context, status: 400 | 413, description: string) {
  context.status = status
  context.body = { error: 'invalid_request', error_description: description }
  context.set({ 'cache-control': 'no-store', 'access-control-allow-origin': '*', connection: 'close' })
}

/** Moves `audience` to `resource`, unless the client named the resource itself. */
function withResource (parameters: URLSearchParams): string {
  const audience = parameters.get('audience')
  if (audience !== null && !parameters.has('resource')) parameters.set('resource', audience)
  parameters.delete('audience')
  return String(parameters)
}

function isJson ({ req }: Context): boolean {
  return req.headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase() === 'application/json'
}

function formOfJson (text: string): URLSearchParams {
  const body = asObject(parseJson(text))
  if (body === undefined) throw new BadTokenRequest('the body is not a JSON object')
  const entries = Object.entries(body).filter(([, value]) => value !== null)
  for (const [name, value] of entries) {
    if (typeof value !== 'string') throw new BadTokenRequest(`the value of "${name}" is not a string`)
  }
  return new URLSearchParams(Object.fromEntries(entries) as Record<string, string>)
}

/** The request has been read, so the provider gets another stream. */
function giveBody (context: Context, body: string) {
  const { headers, method, url, socket } = context.req
  Object.assign(headers, {
    'content-type': 'application/x-www-form-urlencoded',
    'content-length': String(Buffer.byteLength(body))
  })
  delete headers['transfer-encoding']
  context.req = Object.assign(Readable.from([Buffer.from(body)]), { headers, method, url, socket }) as Context['req']
}
