import { once } from 'node:events'
import { createServer } from 'node:http'
import type { ServerResponse } from 'node:http'
import { connect } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import t from 'tap'
import { joinHeadAndBody } from '../../server/one-piece.ts'
import { createQueuedResponse } from '../../server/queued-response.ts'

const ALL_BYTES = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))
const LONG = 'x'.repeat(2 * 1024 + 1)

type Answer = (response: ServerResponse) => void

/** Ends an answer whose length is stated, as Fastify does. */
const whole = (body: string | Buffer, status = 200): Answer => response => {
  response.writeHead(status, { 'content-length': Buffer.byteLength(body) })
  // Its types do not know that Fastify gives nothing for the other two.
  response.end(body, null as never, null as never)
}

/** What a client gets, but the date, and how often the server wrote to its connection. */
async function exchange (answer: Answer, isJoined: boolean, method = 'GET', version = '1.1') {
  const ServerResponse = createQueuedResponse()
  const server = createServer(isJoined ? { ServerResponse } : {}, (_request, response) => answer(response))
  let writes = 0
  server.on('connection', (socket: Socket) => {
    for (const name of ['_write', '_writev'] as const) {
      const write = socket[name]! as (...args: unknown[]) => void
      Object.assign(socket, {
        [name] (...args: unknown[]) {
          writes++
          write.apply(socket, args)
        }
      })
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  client.write(`${method} / HTTP/${version}\r\nhost: api.example\r\nconnection: close\r\n\r\n`)
  const bytes = Buffer.concat(await client.toArray()).toString('latin1').replace(/date: [^\r]*/i, 'date: now')
  server.close()
  return { bytes, writes }
}

/** Notes of how many pieces each write is that has several. */
function countChunks (chunks: number[], body: string | Buffer): Answer {
  return response => {
    const socket = response.socket!
    const writev = socket._writev!
    socket._writev = (pieces, done) => {
      chunks.push(pieces.length)
      writev.call(socket, pieces, done)
    }
    whole(body)(response)
  }
}

const CASES: Array<[name: string, answer: Answer, method?: string, version?: string]> = [
  ['a text', whole('{"a":1}')],
  ['an empty text', whole('')],
  ['a text that is not ASCII', whole('{"a":"é\u{1F511}"}')],
  ['bytes of every kind', whole(ALL_BYTES)],
  ['no bytes', whole(Buffer.alloc(0))],
  ['a long text', whole(LONG)],
  ['long bytes', whole(Buffer.from(LONG))],
  ['a text for HEAD', whole('{"a":1}'), 'HEAD'],
  ['bytes for HEAD', whole(ALL_BYTES), 'HEAD'],
  ['a text with 304', whole('{"a":1}', 304)],
  ['bytes with 204', whole(ALL_BYTES, 204)],
  ['a text for HTTP/1.0', whole('{"a":1}'), 'GET', '1.0'],
  ['a body of no stated length', response => {
    response.writeHead(200)
    response.end('text')
  }],
  ['a head that is written with the body', response => response.end('text')],
  ['a body in two pieces', response => {
    response.writeHead(200, { 'content-length': 2 })
    response.write('a')
    response.end('b')
  }],
  ['a text in another encoding', response => {
    response.writeHead(200, { 'content-length': 2 })
    response.end('6869', 'hex')
  }],
  ['an answer that ends twice', response => {
    whole('text')(response)
    response.on('error', () => {})
    response.end('more')
  }],
  ['a head with bytes above 7F, before bytes', response => {
    response.writeHead(200, { 'content-length': 256, 'x-name': 'caf\u00e9' })
    response.end(ALL_BYTES)
  }]
]

for (const [name, answer, method, version] of CASES) {
  t.test(`The client gets the same bytes with and without: ${name}`, async t => {
    const joined = await exchange(answer, true, method, version)
    t.match(joined.bytes, /^HTTP\/1\.1 \d{3} /)
    t.equal(joined.bytes, (await exchange(answer, false, method, version)).bytes)
  })
}

t.test('A short body goes out with its head in one write, and a longer one or one to be coded is left to Node', async t => {
  for (const body of ['{"a":1}', ALL_BYTES, 'x'.repeat(2 * 1024)]) {
    const chunks: number[] = []
    t.equal((await exchange(countChunks(chunks, body), true)).writes, 1)
    t.strictSame(chunks, [], 'of one piece')
  }
  for (const body of [LONG, Buffer.from(LONG), 'é']) {
    await exchange(response => {
      response.writeHead(200, { 'content-length': Buffer.byteLength(body) })
      t.notOk(joinHeadAndBody(response, body, null))
      response.end(body)
    }, true)
  }
})

t.test('A head before a text keeps its bytes above 7F, which Node would write as UTF-8', async t => {
  const answer: Answer = response => {
    response.writeHead(200, { 'content-length': 2, 'x-name': 'caf\u00e9' })
    response.end('ok')
  }
  t.match((await exchange(answer, true)).bytes, /x-name: caf\u00e9\r\n/)
  t.match((await exchange(answer, false)).bytes, /x-name: caf\u00c3\u00a9\r\n/)
})

t.test('Who ends an answer is told when it has been sent', async t => {
  for (const body of ['ok', Buffer.from('ok')]) {
    for (const hasEncoding of [true, false]) {
      let isTold = false
      const tell = (): void => {
        isTold = true
      }
      const { bytes } = await exchange(response => {
        response.writeHead(200, { 'content-length': 2 })
        if (hasEncoding) response.end(body, undefined as never, tell)
        else response.end(body, tell)
      }, true)
      t.match(bytes, /\r\n\r\nok$/)
      t.ok(isTold)
    }
  }
})
