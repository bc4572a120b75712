import { once } from 'node:events'
import { createServer as createHttpServer, type ServerResponse } from 'node:http'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import {
  answerHalfClosed,
  createUpgradableMessage,
  endSilent,
  OnePieceResponse,
  owedAnswer,
  watchSilence
} from '../../server/node-members.ts'
import { stopClock } from '../helpers/clock.ts'
import { listen } from '../helpers/listen.ts'

const WITHOUT = `Node ${process.version} lacks it`

t.test('Node has each member that is in none of its documents', async t => {
  const seen: string[] = []
  const server = createHttpServer({
    ServerResponse: OnePieceResponse,
    IncomingMessage: createUpgradableMessage(({ url }) => url === '/upgraded')
  }, (request, response) => {
    t.equal(owedAnswer(request.socket), response, `_httpMessage: ${WITHOUT}`)
    response.writeHead(200, { 'content-length': 0 })
    t.match(response, { _header: /^HTTP/, _headerSent: false, _hasBody: true }, WITHOUT)
    t.ok('_onTimeout' in request.socket, `_onTimeout: ${WITHOUT}`)
    seen.push(`request ${request.method}`)
    request.resume().on('end', () => response.end())
  }).on('upgrade', (request, socket) => {
    seen.push(`upgrade ${request.method}`)
    socket.end('HTTP/1.1 101 Switching Protocols\r\n\r\n')
  }).on('connect', (_request, socket) => socket.end('HTTP/1.1 405 Method Not Allowed\r\n\r\n'))
  t.ok('httpAllowHalfOpen' in server, `httpAllowHalfOpen: ${WITHOUT}`)
  answerHalfClosed(server)
  const serverPort = await listen(t, server)
  /** The beginnings of the answers to requests of one connection, each sent after the answer to the last one. */
  const ask = async (...texts: string[]) => {
    const client = connect({ port: serverPort, host: '127.0.0.1', allowHalfOpen: true })
    const answers: string[] = []
    for (const [index, text] of texts.entries()) {
      client.write(text.replaceAll('\n', '\r\n'))
      if (index === texts.length - 1) client.end()
      answers.push(String((await once(client, 'data'))[0]).slice(0, 12))
    }
    return answers
  }
  const lines = 'Host: x\nConnection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: AAMAAABk\n'
  t.strictSame(await ask(`GET /upgraded HTTP/1.1\n${lines}\n`), ['HTTP/1.1 101'], `upgrade: ${WITHOUT}`)
  const get = `GET / HTTP/1.1\n${lines}\n`
  const plain = [get, `POST / HTTP/1.1\n${lines}Content-Length: 3\n\nabc`, get]
  t.strictSame(await ask(...plain), Array(3).fill('HTTP/1.1 200'), 'all others are plain, with body and keep-alive')
  t.strictSame(await ask('CONNECT x:1 HTTP/1.1\nHost: x\n\n'), ['HTTP/1.1 405'])
  t.strictSame(seen, ['upgrade GET', 'request GET', 'request POST', 'request GET'])
})

const LIMIT_MS = 30_000

/** A watched connection, its client, and the number of times that it has been silent for too long. */
async function open (t: Test) {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const [socket] = await once(server, 'connection') as [Socket]
  t.teardown(() => {
    client.destroy()
    socket.destroy()
    server.close()
  })
  socket.setTimeout(LIMIT_MS)
  watchSilence(socket)
  let timeouts = 0
  socket.on('timeout', () => timeouts++)
  const pass = stopClock(t)
  // Whole numbers add up.
  pass(Math.ceil(performance.now()) - performance.now())
  return {
    client,
    socket,
    /** Looks at the connection after some time. Returns the timeouts so far. */
    look: (ms = 0) => {
      pass(ms)
      endSilent([socket])
      return timeouts
    }
  }
}

t.test('A connection that is silent for its limit has a timeout, and the next one after the same time', async t => {
  const { socket, look } = await open(t)
  t.equal(socket.timeout, LIMIT_MS)
  t.strictSame([look(), look(LIMIT_MS - 1), look(1), look(LIMIT_MS - 1), look(1)], [0, 0, 1, 1, 2])
})

t.test('What comes and what is taken begins the time anew', async t => {
  const { socket, client, look } = await open(t)
  t.strictSame([look(), look(LIMIT_MS - 1)], [0, 0])
  client.write('x')
  await once(socket, 'data')
  t.strictSame([look(1), look(LIMIT_MS - 1)], [0, 0])
  socket.write('x')
  await once(client, 'data')
  t.strictSame([look(1), look(LIMIT_MS - 1), look(1)], [0, 0, 1])
})

t.test('What is written and not taken does not', async t => {
  const { socket, client, look } = await open(t)
  client.pause()
  while (socket.write(Buffer.alloc(1024 * 1024)));
  // The system takes what it has room for.
  await new Promise(resolve => setTimeout(resolve, 200))
  look()
  socket.write('more')
  t.strictSame([look(LIMIT_MS), look(LIMIT_MS)].map(timeouts => timeouts > 0), [false, true], 'Node asks once more')
})

t.test('A limit that is set anew counts from then, and without a limit there is none', async t => {
  const { socket, look } = await open(t)
  t.strictSame([look(), look(LIMIT_MS - 1)], [0, 0])
  t.equal(socket.setTimeout(LIMIT_MS), socket)
  t.strictSame([look(1), look(LIMIT_MS - 1), look(1)], [0, 0, 1])
  socket.setTimeout(0)
  t.strictSame([look(), look(LIMIT_MS * 100)], [1, 1])
})

t.test('A callback is called once, unless it is taken back', async t => {
  const { socket, look } = await open(t)
  const calls: string[] = []
  const back = () => calls.push('back')
  socket.setTimeout(LIMIT_MS, () => calls.push('once')).setTimeout(LIMIT_MS, back).setTimeout(0, back)
  socket.setTimeout(LIMIT_MS)
  look()
  look(LIMIT_MS)
  look(LIMIT_MS)
  t.strictSame(calls, ['once'])
})

t.test('Without what is private to Node, the event comes all the same', async t => {
  const { socket, look } = await open(t)
  Object.assign(socket, { _onTimeout: undefined })
  look()
  t.equal(look(LIMIT_MS), 1)
})

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
  const options = isJoined ? { ServerResponse: OnePieceResponse } : {}
  const server = createHttpServer(options, (_request, response) => answer(response))
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

t.test('A short body goes out with its head in one write', async t => {
  for (const body of ['{"a":1}', ALL_BYTES, 'x'.repeat(2 * 1024)]) {
    const chunks: number[] = []
    t.equal((await exchange(countChunks(chunks, body), true)).writes, 1)
    t.strictSame(chunks, [], 'of one piece')
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
      const tell = () => {
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
