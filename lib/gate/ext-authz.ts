import { linesByName } from '../guard/message.ts'
import { field, readFields, type Fields } from './grpc-message.ts'

/**
 * The messages of Envoy's external authorization over gRPC: `CheckRequest` and `CheckResponse` of
 * `envoy/service/auth/v3/external_auth.proto`. The numbers of their fields are those of Envoy's files.
 */

/** The method of the service. */
export const CHECK_PATH = '/envoy.service.auth.v3.Authorization/Check'

/** What Envoy states about the request of its client. */
export type CheckRequest = ReturnType<typeof readCheckRequest>

/** More than Envoy needs for all headers that it takes from a client, each of which has three fields. */
const MAX_FIELDS = 2000

/** @throws MessageError */
export function readCheckRequest (bytes: Buffer) {
  const budget = { left: MAX_FIELDS }
  const read = (message: Buffer) => readFields(message, budget)
  const message = (fields: Fields, number: number) => read(bytesOf(fields, number))
  const attributes = message(read(bytes), 1)
  const http = message(message(attributes, 4), 2)
  // The map `headers`, and the list `header_map` that Envoy sends in its place with `encode_raw_headers`.
  const entries = [...http.get(3) ?? [], ...message(http, 13).get(1) ?? []].map(read)
  return {
    method: text(http, 2),
    /** Path and query, as the client sent them. */
    path: text(http, 4),
    host: text(http, 5),
    scheme: text(http, 6),
    /** By name in lower case. Several lines with one name are several values, or one with commas. */
    headers: linesByName(entries.flatMap(entry => [text(entry, 1), text(entry, 2) || text(entry, 3)])),
    /** The body (`raw_body`), or its beginning. Empty if Envoy sends none in this form. */
    body: bytesOf(http, 12),
    /** The same as text (`body`), where Envoy writes `!` for each byte that is not UTF-8. */
    bodyText: bytesOf(http, 11)
  }
}

const bytesOf = (fields: Fields, number: number) => fields.get(number)?.at(-1) ?? Buffer.alloc(0)
const text = (fields: Fields, number: number) => bytesOf(fields, number).toString()

type HeaderList = ReadonlyArray<readonly [name: string, value: string]>

const OVERWRITE_IF_EXISTS_OR_ADD = 2
/** google.rpc.Code */
const OK = 0
const PERMISSION_DENIED = 7

const headerOption = ([name, value]: HeaderList[number]): Buffer =>
  Buffer.concat([
    field(1, Buffer.concat([field(1, name), field(2, value)])),
    field(3, OVERWRITE_IF_EXISTS_OR_ADD),
    field(4, 1)
  ])

const statusOf = (code: number) => field(1, field(1, code))

/**
 * Lets a request pass.
 * @param set headers for the upstream. They replace those of the client, also if they are empty
 * @param remove headers of the client that the upstream does not get
 * @param answer headers for the answer to the client
 */
export function writePassed (
  { set, remove, answer }: { set: HeaderList, remove: readonly string[], answer: HeaderList }
): Buffer {
  const response = [
    ...set.map(header => field(2, headerOption(header))),
    ...remove.map(name => field(5, name)),
    ...answer.map(header => field(6, headerOption(header)))
  ]
  return Buffer.concat([statusOf(OK), field(3, Buffer.concat(response))])
}

/** Has Envoy give its client this answer. */
export function writeDenied (
  { status, headers, body }: { status: number, headers: HeaderList, body: string }
): Buffer {
  const response = [
    field(1, field(1, status)),
    ...headers.map(header => field(2, headerOption(header))),
    field(3, body)
  ]
  return Buffer.concat([statusOf(PERMISSION_DENIED), field(2, Buffer.concat(response))])
}
