import { IncomingMessage } from 'node:http'
import { readAtMost } from '../../cli/read-at-most.ts'

/** A body that no client of a token endpoint has reason to exceed. */
const MAX_BYTES = 32 * 1024

/** What the client sent cannot be read; the message is its `error_description`. */
export class BadTokenRequest extends Error {
  readonly status: 400 | 413

  constructor (message: string, status: 400 | 413 = 400) {
    super(message)
    this.status = status
  }
}

/**
 * Gives the request to the token endpoint back as the form that RFC 6749 section 4.4.2 asks for. Hosted
 * providers also take JSON, and name the API by `audience` where RFC 8707 says `resource`; so does this.
 */
export async function readTokenRequest (request: IncomingMessage): Promise<IncomingMessage> {
  const text = await readAtMost(request, MAX_BYTES)
  if (text === undefined) throw new BadTokenRequest('the body is too large', 413)
  const form = isJson(request) ? formOfJson(text) : new URLSearchParams(text)
  nameResource(form)
  return withBody(request, form.toString())
}

/** Moves `audience` to `resource`, unless the client named the resource itself. */
export function nameResource (parameters: URLSearchParams): void {
  const audience = parameters.get('audience')
  if (audience !== null && !parameters.has('resource')) parameters.set('resource', audience)
  parameters.delete('audience')
}

function isJson (request: IncomingMessage): boolean {
  const type = request.headers['content-type'] ?? ''
  return type.split(';', 1)[0]?.trim().toLowerCase() === 'application/json'
}

function formOfJson (text: string): URLSearchParams {
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    throw new BadTokenRequest('the body is not JSON')
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new BadTokenRequest('the body is not a JSON object')
  }
  const form = new URLSearchParams()
  for (const [name, value] of Object.entries(body)) {
    if (value === null) continue
    if (typeof value !== 'string') throw new BadTokenRequest(`the value of "${name}" is not a string`)
    form.set(name, value)
  }
  return form
}

/** A request is read once: the provider gets a twin of it that still holds its body. */
function withBody (request: IncomingMessage, body: string): IncomingMessage {
  const twin = new IncomingMessage(request.socket)
  twin.method = request.method
  twin.url = request.url
  twin.headers = {
    ...request.headers,
    'content-type': 'application/x-www-form-urlencoded',
    'content-length': String(Buffer.byteLength(body))
  }
  delete twin.headers['transfer-encoding']
  twin.push(body)
  twin.push(null)
  // Else the end of the twin is taken for an aborted request, and the connection is cut.
  twin.complete = true
  return twin
}
