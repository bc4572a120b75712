import { isUtf8 } from 'node:buffer'
import { isJsonObject } from '../jose/jws.ts'
import type { JsonObject } from '../jose/jws.ts'
import { hasDuplicateMembers } from './json-members.ts'

/** Why a body cannot be judged, as a fixed sentence. */
export class McpError extends Error {
  override readonly name = 'McpError'
}

/** A JSON-RPC message of the Model Context Protocol, as far as rules ask. */
export interface McpMessage {
  /** Undefined for a response: it answers what the server has asked, and calls nothing. */
  readonly method: string | undefined
  /** `name` of its `params`, or `uri` for `resources/read`. */
  readonly name: string | undefined
}

/** The headers that say how the body is to be read, or say again what it says. Lines of one name are joined by commas. */
export interface McpHeaders {
  readonly contentType: string | undefined
  readonly contentEncoding: string | undefined
  /** `Mcp-Method` */
  readonly method: string | undefined
  /** `Mcp-Name` */
  readonly name: string | undefined
}

/** Some programs take Mcp_Name for Mcp-Name, so any sign counts as the `-`. */
const READ_HEADER = /^(?:content[^a-z0-9](?:type|encoding)|mcp[^a-z0-9](?:method|name))$/i

/** @param rawHeaders names and values in turn */
export function readMcpHeaders (rawHeaders: readonly string[]): McpHeaders {
  const values = new Map<string, string>()
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (!READ_HEADER.test(rawHeaders[i]!)) continue
    const name = rawHeaders[i]!.toLowerCase().replace(/[^a-z0-9]/, '-')
    const earlier = values.get(name)
    values.set(name, earlier === undefined ? rawHeaders[i + 1]! : `${earlier}, ${rawHeaders[i + 1]}`)
  }
  return { contentType: values.get('content-type'), contentEncoding: values.get('content-encoding'), method: values.get('mcp-method'), name: values.get('mcp-name') }
}

const MESSAGE_MEMBERS = ['jsonrpc', 'id', 'method', 'params', 'result', 'error']
const PARAMS_MEMBERS = ['name', 'uri']

export const TOOL_CALL = 'tools/call'
/** The methods whose messages name what they are about, and the member of `params` that does. */
const NAMED_BY: ReadonlyMap<string, 'name' | 'uri'> = new Map([[TOOL_CALL, 'name'], ['prompts/get', 'name'], ['resources/read', 'uri']])

/**
 * Reads the messages of a body: one, or those of a batch. What two parsers could read differently is refused, so that the gate judges
 * what the upstream will do.
 * @throws McpError
 */
export function readMcpMessages (body: Uint8Array, headers: McpHeaders): readonly McpMessage[] {
  verifyContentType(headers)
  const json = parseBody(body)
  const messages = Array.isArray(json) ? json.map(readMessage) : [readMessage(json)]
  if (messages.length === 0) throw new McpError('The batch is empty.')
  for (const message of messages) verifyHeaders(message, headers)
  return messages
}

const JSON_TYPE = /^application\/json[ \t]*(?:;[ \t]*charset=(?:utf-8|"utf-8")[ \t]*)?$/i

function verifyContentType ({ contentType = '', contentEncoding }: McpHeaders): void {
  if (!JSON_TYPE.test(contentType)) throw new McpError('The content type is not application/json.')
  if (contentEncoding !== undefined) throw new McpError('The body has a content coding.')
}

function parseBody (body: Uint8Array): unknown {
  if (!isUtf8(body)) throw new McpError('The body is not UTF-8.')
  // JSON.parse refuses a byte order mark, which `toString` keeps.
  const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('utf8')
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    throw new McpError('The body is not JSON.')
  }
  if (hasDuplicateMembers(text)) throw new McpError('An object in the body has two members of one name.')
  return json
}

function readMessage (message: unknown): McpMessage {
  if (!isJsonObject(message)) throw new McpError('A message is not an object.')
  verifySpelling(message, MESSAGE_MEMBERS)
  const { method, params = {} } = message
  const isResponse = Object.hasOwn(message, 'result') || Object.hasOwn(message, 'error')
  if (Object.hasOwn(message, 'method') === isResponse) throw new McpError('A message is neither a request nor a response.')
  if (!isJsonObject(params)) throw new McpError('The params of a message are not an object.')
  verifySpelling(params, PARAMS_MEMBERS)
  if (isResponse) return { method: undefined, name: undefined }
  if (typeof method !== 'string') throw new McpError('The method of a message is not a text.')
  verifyCharacters(method)
  return { method, name: nameIn(method, params) }
}

/** @throws McpError if the method needs a name and has none */
function nameIn (method: string, params: JsonObject): string | undefined {
  if (params.name !== undefined && typeof params.name !== 'string') throw new McpError('The name in a message is not a text.')
  const member = NAMED_BY.get(method)
  if (member === undefined) return undefined
  const name = params[member]
  if (typeof name !== 'string') throw new McpError('The name in a message is not a text.')
  verifyCharacters(name)
  return name
}

/** Control characters and halves of surrogate pairs. Some programs end a text at U+0000, or drop what they cannot encode. */
const UNSTABLE = /[\p{Cc}\p{Cs}]/u

function verifyCharacters (text: string): void {
  if (UNSTABLE.test(text)) throw new McpError('A method, a name or a member of a message has characters that some programs drop.')
}

/** Some parsers take a member of another case for the one that they look for. Two letters beyond ASCII are cases of `k` and `s`. */
function verifySpelling (object: JsonObject, expected: readonly string[]): void {
  for (const name of Object.keys(object)) {
    verifyCharacters(name)
    if (!expected.includes(name) && expected.includes(name.toUpperCase().toLowerCase())) throw new McpError('A member differs from a known one by case alone.')
  }
}

function verifyHeaders ({ method, name }: McpMessage, headers: McpHeaders): void {
  if (!isSaid(headers.method, method)) throw new McpError('The Mcp-Method header does not say what the body says.')
  if (!isSaid(headers.name, name)) throw new McpError('The Mcp-Name header does not say what the body says.')
}

/** Whether a header says this text, if it is there at all. Text beyond visible ASCII stands in it as `=?base64?...?=`, the base64 of its UTF-8. */
function isSaid (header: string | undefined, text: string | undefined): boolean {
  if (header === undefined) return true
  if (text === undefined) return false
  const [, base64] = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/i.exec(header) ?? []
  return base64 === undefined ? header === text : base64 === Buffer.from(text).toString('base64')
}
