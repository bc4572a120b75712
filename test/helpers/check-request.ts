import { field } from '../../lib/gate/grpc-message.ts'
import { frame } from './grpc-client.ts'

/** A check request as Envoy sends it, with fields that are skipped. */
export function checkRequest (
  {
    method = 'GET',
    path = '/any/x',
    host = 'api.example',
    scheme = 'https',
    headers = {},
    raw = [],
    body = '',
    text = ''
  }: {
    method?: string | null,
    path?: string | null,
    host?: string | null,
    scheme?: string | null,
    headers?: Record<string, string>,
    raw?: ReadonlyArray<readonly [string, string]>,
    body?: string | Buffer,
    text?: string
  }
): Buffer {
  const pair = ([name, value]: readonly [string, string]) => field(1, Buffer.concat([field(1, name), field(3, value)]))
  const http = Buffer.concat([
    ...method === null ? [] : [field(2, method)],
    ...Object.entries(headers).map(([name, value]) => field(3, Buffer.concat([field(1, name), field(2, value)]))),
    ...[path, host, scheme].flatMap((text, index) => text === null ? [] : [field(4 + index, text)]),
    field(9, 12345678),
    ...text === '' ? [] : [field(11, text)],
    ...body.length === 0 ? [] : [field(12, body)],
    ...raw.length === 0 ? [] : [field(13, Buffer.concat(raw.map(pair)))]
  ])
  const source = Buffer.concat([Buffer.from([0x0d, 1, 2, 3, 4]), Buffer.from([0x11, 1, 2, 3, 4, 5, 6, 7, 8])])
  return frame(field(1, Buffer.concat([field(1, source), field(4, field(2, http))])))
}
