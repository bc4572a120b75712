import { isUtf8 } from 'node:buffer'
import { isJsonObject, type JsonObject } from '../base/json.ts'
import { DROPPED, inOneCase } from './arguments.ts'
import { GateError } from './gate-error.ts'
import { plainName } from './identity-headers.ts'
import type { JsonFault, JsonRead } from './json-text.ts'
import { NAMED_BY, PROTOCOL_METHODS } from './mcp-methods.ts'
import { RPC_CODES } from './rpc-error.ts'

/** A JSON-RPC message of the Model Context Protocol, as far as rules ask. */
export interface McpMessage {
  /** Undefined for a response: it answers what the server has asked, and calls nothing. */
  readonly method: string | undefined
  /** What it is about, for a method that names something: `name`, `uri` or `taskId` of its `params`. */
  readonly name: string | undefined
  /** `params.arguments`. It may be anything. */
  readonly args?: unknown
}

/** What headers say that a message is. */
interface Stated extends McpMessage {
  /** The revision of the protocol. */
  readonly version: string | undefined
}

const MESSAGE_MEMBERS = ['jsonrpc', 'id', 'method', 'params', 'result', 'error']
const PARAMS_MEMBERS = ['name', 'uri', 'taskId', 'arguments']
const LONGEST_MEMBER = 'arguments'.length
const VERSION_KEY = 'io.modelcontextprotocol/protocolVersion'

const JSON_TYPE = /^application\/json[ \t]*(?:;[ \t]*charset=(?:utf-8|"utf-8")[ \t]*)?$/i

/**
 * Reads the messages of a body: one, or those of a batch. What two parsers could read differently is refused, so that
 * the gate judges what the upstream will do. The headers that repeat what the body says must agree with every message.
 * @param rawHeaders names and values in turn
 * @param isListCut whether something is taken out of the answers. Those to a batch come as one
 * @throws GateError 400
 */
export function readMcpMessages (
  { json, fault }: JsonRead,
  rawHeaders: readonly string[],
  isListCut: boolean
): readonly McpMessage[] {
  const valueOf = headerReader(rawHeaders)
  if (!JSON_TYPE.test(valueOf('content-type') ?? '')) refuse('The content type is not application/json.')
  if (valueOf('content-encoding') !== undefined) refuse('The body has a content coding.')
  if (fault) refuse(...FAULTS[fault])
  const stated: Stated = {
    method: valueOf('mcp-method'),
    name: valueOf('mcp-name'),
    version: valueOf('mcp-protocol-version')
  }
  const isBatch = Array.isArray(json)
  const messages = (isBatch ? json : [json]).map(message => readMessage(message, stated))
  if (messages.length === 0) refuse('The batch is empty.')
  if (isBatch && isListCut) refuse('A batch is not accepted here.')
  return messages
}

/** What the headers say that a request is about. They may say anything: this is for hints, never for decisions. */
export function readHint (rawHeaders: readonly string[]): McpMessage {
  const valueOf = headerReader(rawHeaders)
  const name = valueOf('mcp-name')
  return { method: valueOf('mcp-method'), name: name && decodeName(name) }
}

function headerReader (rawHeaders: readonly string[]): (name: string) => string | undefined {
  return name => {
    // Some programs take Mcp_Name for Mcp-Name. Its length stays.
    const isIt = (other: string) => other.length === name.length && plainName(other) === name
    const values = rawHeaders.filter((_, i) => i % 2 === 1 && isIt(rawHeaders[i - 1]!))
    return values.length === 0 ? undefined : values.join(', ')
  }
}

const FAULTS: Readonly<Record<JsonFault, readonly [sentence: string, rpcCode?: number]>> = {
  encoding: ['The body is not UTF-8.', RPC_CODES.parseError],
  bounds: ['The body has too many levels or values.'],
  syntax: ['The body is not JSON.', RPC_CODES.parseError],
  duplicates: ['An object in the body has two members of one name.']
}

/** Whether a message answers one of the server: its `id` is the server's. */
export function isResponse (message: JsonObject): boolean {
  return Object.hasOwn(message, 'result') || Object.hasOwn(message, 'error')
}

function readMessage (message: unknown, stated: Stated): McpMessage {
  if (!isJsonObject(message)) refuse('A message is not an object.')
  verifySpelling(message, MESSAGE_MEMBERS)
  const { method, params = {} } = message
  const isAnswer = isResponse(message)
  if (Object.hasOwn(message, 'method') === isAnswer) refuse('A message is neither a request nor a response.')
  if (!isJsonObject(params)) refuse('The params of a message are not an object.')
  verifySpelling(params, PARAMS_MEMBERS)
  if (isAnswer) return verifyStated({ method: undefined, name: undefined }, params, stated)
  if (typeof method !== 'string') refuse('The method of a message is not a text.')
  verifyCharacters(method)
  const member = NAMED_BY.get(method)
  const { name = '' } = params
  const subject = member === undefined ? '' : params[member]
  if (typeof name !== 'string' || typeof subject !== 'string') refuse('The name in a message is not a text.')
  verifyCharacters(subject)
  return verifyStated({ method, name: member && subject, args: params['arguments'] }, params, stated)
}

/** Headers that repeat what the body says must agree with it. */
function verifyStated (message: McpMessage, params: JsonObject, stated: Stated): McpMessage {
  const { method, name } = message
  // A method is never encoded: for the upstream its base64 is another text.
  if (stated.method !== undefined && stated.method !== method) {
    mismatch('The Mcp-Method header does not say what the body says.')
  }
  // What a method of an extension names, only its own specification knows.
  if ((method === undefined || PROTOCOL_METHODS.has(method)) && !isStated(stated.name, name)) {
    mismatch('The Mcp-Name header does not say what the body says.')
  }
  const version = isJsonObject(params['_meta']) ? params['_meta'][VERSION_KEY] : undefined
  if (stated.version !== undefined && version !== undefined && stated.version !== version) {
    mismatch('The MCP-Protocol-Version header does not say what the body says.')
  }
  return message
}

function verifyCharacters (text: string) {
  if (DROPPED.test(text)) {
    refuse('A method, a name or a member of a message has characters that some programs drop.')
  }
}

/**
 * Some parsers take a member of another case for the one that they look for. Two letters beyond ASCII are cases of `k`
 * and `s`.
 */
function verifySpelling (object: JsonObject, expected: readonly string[]) {
  for (const name of Object.keys(object)) {
    verifyCharacters(name)
    // No letter becomes shorter in another case.
    if (name.length > LONGEST_MEMBER || expected.includes(name)) continue
    const lower = inOneCase(name)
    if (expected.some(member => member.toLowerCase() === lower)) {
      refuse('A member differs from a known one by case alone.')
    }
  }
}

/** Whether a header that holds a name, if there is one, has this text. */
function isStated (header: string | undefined, text: string | undefined): boolean {
  return header === undefined || (text !== undefined && decodeName(header) === text)
}

/**
 * Text beyond visible ASCII is written as `=?base64?...?=`, the base64 of its UTF-8. The case of its beginning counts:
 * for the upstream, another one is plain text. What is no base64 in its only form stands for itself.
 */
function decodeName (header: string): string {
  const [, base64] = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/.exec(header) ?? []
  if (base64 === undefined) return header
  const bytes = Buffer.from(base64, 'base64')
  return bytes.toString('base64') === base64 && isUtf8(bytes) ? bytes.toString() : header
}

function refuse (sentence: string, rpcCode?: number): never {
  throw new GateError(400, sentence, rpcCode === undefined ? {} : { rpcCode })
}

function mismatch (sentence: string): never {
  refuse(sentence, RPC_CODES.headerMismatch)
}
