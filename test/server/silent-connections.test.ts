import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { IncomingMessage } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import t from 'tap'
import type { Test } from 'tap'
import { createQueuedResponse } from '../../server/queued-response.ts'
import { endSilent, watchSilence } from '../../server/silent-connections.ts'
import { stopClock } from '../helpers/clock.ts'

const LIMIT_MS = 30_000
const QueuedResponse = createQueuedResponse()

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
    look: (ms = 0): number => {
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
  const back = (): number => calls.push('back')
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

t.test('While a request waits behind an answer, only what the client takes counts, also without a limit', async t => {
  const { socket, client, look } = await open(t)
  Object.assign(socket, { _httpMessage: {} })
  const waiting = new QueuedResponse({ socket, url: '/', rawHeaders: [], headers: {} } as unknown as IncomingMessage)
  socket.setTimeout(0)
  look()
  socket.write('x')
  await once(client, 'data')
  t.equal(look(LIMIT_MS - 1), 0)
  client.write('x')
  await once(socket, 'data')
  look(LIMIT_MS - 1)
  t.notOk(socket.destroyed)
  look(1)
  t.ok(socket.destroyed)
  t.equal(waiting.writableEnded, false)
})
