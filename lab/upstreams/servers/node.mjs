import { createServer } from 'node:http'
import { answerTo, HEADERS } from './answer.mjs'

export function serve (request, response) {
  const chunks = []
  request.on('data', chunk => chunks.push(chunk)).on('end', () => {
    const { method, url, originalUrl = url, rawHeaders } = request
    const { status, text, isChunked } = answerTo(method, originalUrl, rawHeaders, Buffer.concat(chunks))
    const hasLength = !isChunked && status !== 204 && status !== 304
    const length = hasLength ? [['content-length', String(Buffer.byteLength(text))]] : []
    response.writeHead(status, [...HEADERS, ...length].flat())
    if (isChunked) response.write(text.slice(0, 10))
    response.end(isChunked ? text.slice(10) : text)
  })
}
if (process.argv[1] === import.meta.filename) createServer(serve).listen(Number(process.env.PORT), '127.0.0.1')
