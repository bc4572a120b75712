import { isUtf8 } from 'node:buffer'
import { isJsonObject } from '../jose/jws.ts'
import type { JsonObject } from '../jose/jws.ts'
import { countMembers } from '../json-bounds.ts'
import type { JsonBounds } from '../json-bounds.ts'
import { GateError } from './gate-error.ts'
import { linesByName, plainName } from './headers.ts'

/** A JSON-RPC message of the Model Context Protocol, as far as rules ask. */
export interface McpMessage {
  /** Undefined for a response: it answers what the server has asked, and calls nothing. */
  readonly method: string | undefined
  /** `name` of its `params`, or `uri` for `resources/read`. */
  readonly name: string | undefined
}

const MESSAGE_MEMBERS = ['jsonrpc', 'id', 'method', 'params', 'result', 'error']
const PARAMS_MEMBERS = ['name', 'uri']

export const TOOL_CALL = 'tools/call'
/** The methods whose messages name what they are about, and the member of `params` that does. */
const NAMED_BY: ReadonlyMap<string, 'name' | 'uri'> = new Map([[TOOL_CALL, 'name'], ['prompts/get', 'name'], ['resources/read', 'uri']])

const JSON_TYPE = /^application\/json[ \t]*(?:;[ \t]*charset=(?:utf-8|"utf-8")[ \t]*)?$/i

/**
 * Reads the messages of a body: one, or those of a batch. What two parsers could read differently is refused, so that the gate judges
 * what the upstream will do. `Mcp-Method` and `Mcp-Name` must agree with every message.
 * @param rawHeaders names and values in turn
 * @throws GateError 400
 */
export function readMcpMessages (body: Uint8Array, rawHeaders: readonly string[]): readonly McpMessage[] {
  // Some programs take Mcp_Name for Mcp-Name.
  const lines = linesByName(rawHeaders, plainName)
  const valueOf = (name: string): string | undefined => lines.get(name)?.join(', ')
  if (!JSON_TYPE.test(valueOf('content-type') ?? '')) refuse('The content type is not application/json.')
  if (lines.has('content-encoding')) refuse('The body has a content coding.')
  const json = parseBody(body)
  const messages = Array.isArray(json) ? json.map(readMessage) : [readMessage(json)]
  if (messages.length === 0) refuse('The batch is empty.')
  for (const { method, name } of messages) {
    if (!isStated(valueOf('mcp-method'), method)) refuse('The Mcp-Method header does not say what the body says.')
    if (!isStated(valueOf('mcp-name'), name)) refuse('The Mcp-Name header does not say what the body says.')
  }
  return messages
}

/** Real messages have some hundred values. */
const BOUNDS: JsonBounds = { maxDepth: 64, maxValues: 20_000 }

function parseBody (body: Uint8Array): unknown {
  if (!isUtf8(body)) refuse('The body is not UTF-8.')
  const members = countMembers(body, BOUNDS)
  if (members === undefined) refuse('The body has too many levels or values.')
  // JSON.parse refuses a byte order mark, which `toString` keeps.
  const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('utf8')
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    refuse('The body is not JSON.')
  }
  // Parsers differ in which of two members of one name counts (RFC 8259 section 4). JSON.parse keeps only one.
  if (members !== membersIn(json)) refuse('An object in the body has two members of one name.')
  return json
}

/** The members of all objects in a value from JSON, at any depth. */
function membersIn (value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  const children: unknown[] = Object.values(value)
  return children.reduce((sum: number, child) => sum + membersIn(child), Array.isArray(value) ? 0 : children.length)
}

function readMessage (message: unknown): McpMessage {
  if (!isJsonObject(message)) refuse('A message is not an object.')
  verifySpelling(message, MESSAGE_MEMBERS)
  const { method, params = {} } = message
  const isResponse = Object.hasOwn(message, 'result') || Object.hasOwn(message, 'error')
  if (Object.hasOwn(message, 'method') === isResponse) refuse('A message is neither a request nor a response.')
  if (!isJsonObject(params)) refuse('The params of a message are not an object.')
  verifySpelling(params, PARAMS_MEMBERS)
  if (isResponse) return { method: undefined, name: undefined }
  if (typeof method !== 'string') refuse('The method of a message is not a text.')
  verifyCharacters(method)
  const member = NAMED_BY.get(method)
  const { name = '' } = params
  const subject = member === undefined ? '' : params[member]
  if (typeof name !== 'string' || typeof subject !== 'string') refuse('The name in a message is not a text.')
  verifyCharacters(subject)
  return { method, name: member && subject }
}

/** Control characters and halves of surrogate pairs. Some programs end a text at U+0000, or drop what they cannot encode. */
const UNSTABLE = /[\p{Cc}\p{Cs}]/u

function verifyCharacters (text: string): void {
  if (UNSTABLE.test(text)) refuse('A method, a name or a member of a message has characters that some programs drop.')
}

/** Some parsers take a member of another case for the one that they look for. Two letters beyond ASCII are cases of `k` and `s`. */
function verifySpelling (object: JsonObject, expected: readonly string[]): void {
  for (const name of Object.keys(object)) {
    verifyCharacters(name)
    if (!expected.includes(name) && expected.includes(name.toUpperCase().toLowerCase())) refuse('A member differs from a known one by case alone.')
  }
}

/** Whether a header, if there is one, has this text. Text beyond visible ASCII is written as `=?base64?...?=`, the base64 of its UTF-8. */
function isStated (header: string | undefined, text: string | undefined): boolean {
  if (header === undefined) return true
  if (text === undefined) return false
  const [, base64] = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/i.exec(header) ?? []
  return base64 === undefined ? header === text : base64 === Buffer.from(text).toString('base64')
}

function refuse (sentence: string): never {
  throw new GateError(400, sentence)
}
