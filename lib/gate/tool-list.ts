import { pipeline, type Readable } from 'node:stream'
import { isJsonObject, type JsonBounds } from '../base/json.ts'
import {
  isCoded,
  streamOf,
  UpstreamError,
  valuesOf,
  type AnswerHeaders,
  type UpstreamAnswer
} from './upstream/answer.ts'
import { createEventCutter } from './event-stream.ts'
import { childrenAt, memberAt, readJson } from './json-text.ts'

type ToolTest = (tool: string) => boolean

/** What is taken out of an answer. */
export interface ListCut {
  readonly isShown: ToolTest
  /** Whether the answer is for one caller only. */
  readonly isOfCaller: boolean
}

/** Bytes of an answer, or of one event of a stream, that is read to be cut. */
const MAX_LIST_BYTES = 1024 * 1024
/** What describes the bytes of a body that is cut. */
const OF_THE_BODY: ReadonlySet<string> = new Set([
  'content-length',
  'content-md5',
  'content-digest',
  'repr-digest',
  'digest',
  'etag'
])

/**
 * Takes tools out of an answer: of lists in JSON, and in each event of a stream. All else passes as it came.
 * @param isStream whether the request opened a stream, so that an answer of another type is no list
 * @throws UpstreamError 502 if it cannot be read
 */
export async function cutTools (
  answer: UpstreamAnswer,
  { isShown, isOfCaller }: ListCut,
  isStream: boolean
): Promise<UpstreamAnswer> {
  const { status, headers } = answer
  const type = valuesOf(headers, 'content-type').join().split(';', 1)[0]!.trim().toLowerCase()
  const isEvents = type === 'text/event-stream'
  if (status !== 200 || (isStream && !isEvents)) return answer
  const isReadable = !isCoded(headers) && (isEvents || type === 'application/json')
  const body = streamOf(answer.body)
  try {
    if (!isReadable) throw unreadable()
    const cut = isEvents ? cutEvents(body, isShown) : shownToolsOnly(await readBytes(body), isShown)
    const kept = withoutBodyHeaders(headers)
    return { status, headers: isOfCaller ? { ...kept, 'cache-control': 'private, no-store' } : kept, body: cut }
  } catch (error) {
    body.destroy()
    throw error
  }
}

function unreadable (): UpstreamError {
  return new UpstreamError(502, 'The list of tools of the upstream cannot be read')
}

function withoutBodyHeaders (headers: AnswerHeaders): AnswerHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !OF_THE_BODY.has(name)))
}

async function readBytes (body: Readable): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of body as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > MAX_LIST_BYTES) throw unreadable()
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function cutEvents (body: Readable, isShown: ToolTest): Readable {
  const cutter = createEventCutter({
    maxBytes: MAX_LIST_BYTES,
    tooLarge: unreadable,
    // Only what is marked as another event may be no message: `endpoint`, of a transport before this one, holds an
    // address.
    cut: (data, isMessage) => shownToolsOnly(data, isShown, data.length > 0 && isMessage)
  })
  // The reader of the cut stream sees an error of either.
  return pipeline(body, cutter, () => {})
}

/** Descriptions of tools may hold many values. Their number is that of their bytes at most. */
const BOUNDS: JsonBounds = { maxDepth: 1000, maxValues: MAX_LIST_BYTES }

/**
 * Takes tools out of the results in JSON: one message or a batch. Everything else stays as it is written.
 * @param isMessage whether it must be JSON
 * @throws UpstreamError 502
 */
export function shownToolsOnly (bytes: Buffer, isShown: ToolTest, isMessage = true): Buffer {
  const { json, fault } = readJson(bytes, BOUNDS)
  if (fault === 'syntax' && !isMessage) return bytes
  if (fault) throw unreadable()
  const messages = Array.isArray(json)
    ? childrenAt(bytes, 0).map(({ start }, i) => ({ message: json[i] as unknown, start }))
    : [{ message: json, start: 0 }]
  // Each byte is a character.
  const text = bytes.toString('latin1')
  let kept = ''
  let at = 0
  for (const { message, start } of messages) {
    const tools = toolsOf(message)
    if (!tools || tools.every(isShown)) continue
    const list = memberAt(bytes, memberAt(bytes, start, 'result')!.start, 'tools')!
    const shown = childrenAt(bytes, list.start).filter((_, i) => isShown(tools[i]!))
    kept += text.slice(at, list.start + 1) + shown.map(({ start, end }) => text.slice(start, end)).join()
    at = list.end - 1
  }
  return Buffer.from(kept + text.slice(at), 'latin1')
}

/** The names of the tools in a message, or undefined if it holds no list of tools. */
function toolsOf (message: unknown): string[] | undefined {
  const result = isJsonObject(message) ? message['result'] : undefined
  if (!isJsonObject(result) || !Object.hasOwn(result, 'tools')) return undefined
  const { tools } = result
  if (!Array.isArray(tools)) throw unreadable()
  return tools.map(tool => {
    if (!isJsonObject(tool) || typeof tool['name'] !== 'string') throw unreadable()
    return tool['name']
  })
}
