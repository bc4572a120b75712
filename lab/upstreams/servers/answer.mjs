import { createHash } from 'node:crypto'

// What each server of this folder answers: the query says the status, the size, the form and the headers of the answer,
// and the body says what has come.

const NOT_COUNTED = /^(?:host|connection|upgrade|http2-settings|expect|transfer-encoding|content-length|forwarded|x-forwarded-.*|x-auth-.*|x-request-id|via)$/i

/** @param body the bytes that have come */
export function answerTo (method, target, rawHeaders, body) {
  const query = new URLSearchParams(target.split('?')[1] ?? '')
  const lines = []
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (!NOT_COUNTED.test(rawHeaders[i])) lines.push(`${rawHeaders[i].toLowerCase()}: ${rawHeaders[i + 1]}`)
  }
  const hash = createHash('sha256').update(body).digest('hex')
  const seen = { method, target, lines: lines.sort(), hash, bytes: body.length }
  const size = Number(query.get('size') ?? 0)
  return {
    status: Number(query.get('status') ?? 200),
    isChunked: query.has('chunked'),
    text: JSON.stringify(seen) + 'x'.repeat(size)
  }
}

export const HEADERS = [
  ['content-type', 'text/plain; charset=utf-8'],
  ['x-a', 'b'],
  ['cache-control', 'no-cache, private'],
  ['set-cookie', 'a=1'],
  ['set-cookie', 'b=2']
]
