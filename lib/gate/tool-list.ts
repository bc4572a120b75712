import { finished, pipeline, Readable } from 'node:stream'
import { isJsonObject } from '../jose/jws.ts'
import type { JsonBounds } from '../json-bounds.ts'
import { linesOf } from '../message.ts'
import { UpstreamError } from '../upstream/upstream.ts'
import type { UpstreamAnswer } from '../upstream/upstream.ts'
import { createEventCutter } from './event-stream.ts'
import { elementsAt, membersAt, pastSpace, readJson } from './json-text.ts'
import type { JsonSpan } from './json-text.ts'
import type { ToolTest } from './rules.ts'

/** Bytes of an answer, or of one event of a stream, that is read to be cut. */
export const MAX_LIST_BYTES = 1024 * 1024
/** What describes the bytes of a body that is cut. */
const OF_THE_BODY: ReadonlySet<string> = new Set(['content-length', 'content-md5', 'content-digest', 'repr-digest', 'digest', 'etag'])

/**
 * Takes the tools that are not ruled out of an answer: of lists in JSON, and in each event of a stream. All else passes as it came.
 * @param isStream whether the request opened a stream, so that an answer of another type is no list
 * @throws UpstreamError 502 if it cannot be read
 */
export async function cutTools (answer: UpstreamAnswer, isRuled: ToolTest, isStream: boolean): Promise<UpstreamAnswer> {
  const { status, headers, body } = answer
  const type = linesOf(headers, 'content-type').join().split(';', 1)[0]!.trim().toLowerCase()
  const isEvents = type === 'text/event-stream'
  if (status !== 200 || (isStream && !isEvents)) return answer
  const isCoded = linesOf(headers, 'content-encoding').some(coding => !/^(?:identity)?$/i.test(coding))
  const isReadable = !isCoded && (isEvents || type === 'application/json')
  try {
    if (!isReadable) throw unreadable()
    const cut = isEvents ? cutEvents(body, isRuled) : wholeBody(ruledToolsOnly(await readBytes(body), isRuled))
    return { status, headers: withoutBodyHeaders(headers), body: cut }
  } catch (error) {
    body.destroy()
    throw error
  }
}

function unreadable (): UpstreamError {
  return new UpstreamError(502, 'The list of tools of the upstream cannot be read')
}

function withoutBodyHeaders (headers: readonly string[]): string[] {
  return headers.filter((_, i) => !OF_THE_BODY.has(headers[i - i % 2]!.toLowerCase()))
}

function wholeBody (text: string): UpstreamAnswer['body'] {
  // All of it is there, so it is never asked for more.
  const body = new Readable()
  body.push(text)
  body.push(null)
  return Object.assign(body, { isWhole: true })
}

function readBytes (body: Readable): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  return new Promise((resolve, reject) => {
    body.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size > MAX_LIST_BYTES) return reject(unreadable())
      chunks.push(chunk)
    })
    finished(body, error => error ? reject(error) : resolve(Buffer.concat(chunks)))
  })
}

function cutEvents (body: Readable, isRuled: ToolTest): Readable {
  const cutter = createEventCutter({
    maxBytes: MAX_LIST_BYTES,
    tooLarge: unreadable,
    // Only what is marked as another event may be no message: `endpoint`, of a transport before this one, holds an address.
    cut: (data, isMessage) => data.length === 0 || (!isMessage && !isJson(data)) ? data : Buffer.from(ruledToolsOnly(data, isRuled))
  })
  // The reader of the cut stream sees an error of either.
  return pipeline(body, cutter, () => {})
}

function isJson (data: Buffer): boolean {
  try {
    JSON.parse(data.toString())
    return true
  } catch {
    return false
  }
}

/** Descriptions of tools may hold many values. Their number is that of their bytes at most. */
const BOUNDS: JsonBounds = { maxDepth: 1000, maxValues: MAX_LIST_BYTES }

/**
 * Takes the tools that are not ruled out of the results in a text: one message or a batch. Everything else stays as it is written.
 * @throws UpstreamError 502
 */
export function ruledToolsOnly (bytes: Buffer, isRuled: ToolTest): string {
  const { json, text } = readJson(bytes, BOUNDS, () => { throw unreadable() })
  const start = pastSpace(text, 0)
  const messages = Array.isArray(json) ? elementsAt(text, start).map((span, i) => ({ message: (json as unknown[])[i], start: span.start })) : [{ message: json, start }]
  // All places are those of one text: a text that changed with each message would be copied for each.
  const pieces: string[] = []
  let at = 0
  for (const { message, start } of messages) {
    const list = cutList(text, start, message, isRuled)
    if (!list) continue
    pieces.push(text.slice(at, list.start), list.kept)
    at = list.end
  }
  return pieces.join('') + text.slice(at)
}

/** Where the list of tools of a message is, and what takes its place. Undefined if it stays as it is. */
function cutList (text: string, at: number, message: unknown, isRuled: ToolTest): JsonSpan & { readonly kept: string } | undefined {
  const result = isJsonObject(message) ? message['result'] : undefined
  if (!isJsonObject(result) || !Object.hasOwn(result, 'tools')) return undefined
  const { tools } = result
  if (!Array.isArray(tools)) throw unreadable()
  const isKept = tools.map(tool => {
    if (!isJsonObject(tool) || typeof tool['name'] !== 'string') throw unreadable()
    return isRuled(tool['name'])
  })
  if (isKept.every(Boolean)) return undefined
  const { start, end } = memberAt(text, memberAt(text, at, 'result').start, 'tools')
  const kept = elementsAt(text, start).filter((_, i) => isKept[i]).map(({ start, end }) => text.slice(start, end))
  return { start, end, kept: `[${kept.join(',')}]` }
}

function memberAt (text: string, at: number, name: string) {
  return membersAt(text, at).find(member => member.name === name)!
}
