import { once } from 'node:events'
import { createServer } from 'node:http'
import type { ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { PassThrough } from 'node:stream'
import t from 'tap'
import type { UpstreamAnswer } from '../../../lib/upstream/exchange.ts'
import { createUpstream } from '../../../lib/upstream/upstream.ts'

/** Timers that run when the test says so. */
function createTimers () {
  const waiting = new Set<{ ms: number, run: () => void }>()
  const after = (ms: number, run: () => void): () => void => {
    const timer = { ms, run }
    waiting.add(timer)
    return () => { waiting.delete(timer) }
  }
  return { after, waiting }
}

t.test('The time limit of the upstream restarts with each part of the request, and ends with the answer.', async t => {
  let answering: ServerResponse
  const server = createServer((_request, response) => { answering = response; server.emit('arrived') }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => { server.closeAllConnections(); server.close() })
  const { after, waiting } = createTimers()
  const upstream = createUpstream({ origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, timeoutSeconds: 7, bodyLimit: 4, after })
  t.teardown(() => upstream.close())
  const send = (body?: PassThrough, onInterim = (): void => {}) => upstream.send({ method: 'POST', target: '/', headers: [], body, onInterim })
  const read = async ({ body }: UpstreamAnswer): Promise<string> => String(Buffer.concat(await body.toArray()))

  const source = new PassThrough()
  const { answer } = send(source)
  const [first] = waiting
  t.equal(first!.ms, 7000)
  source.write('a')
  await once(server, 'arrived')
  const [second, ...others] = waiting
  t.not(second, first, 'the body has gone on, so the time begins anew')
  t.strictSame([second!.ms, others], [7000, []])
  answering!.writeHead(200)
  answering!.write('x')
  const answered = await answer
  t.equal(waiting.size, 0, 'an answer ends it')
  source.write('b')
  source.end('c')
  while (source.readableLength > 0 || !source.readableEnded) await new Promise(resolve => setImmediate(resolve))
  t.equal(waiting.size, 0, 'a body that goes on behind the answer does not start it again')
  answering!.end('y')
  t.equal(await read(answered), 'xy')

  let hinted: ReturnType<typeof send>
  const hint = new Promise<void>(resolve => { hinted = send(undefined, resolve) })
  const [before] = waiting
  await once(server, 'arrived')
  answering!.writeProcessing()
  await hint
  t.not([...waiting][0], before, 'an interim answer is a sign of life')
  t.equal(waiting.size, 1)
  for (const { run } of waiting) run()
  await t.rejects(hinted!.answer, { statusCode: 504, message: 'The upstream is too slow' })
  t.equal(waiting.size, 0)

  const large = new PassThrough()
  const refused = send(large)
  large.write('abcde')
  await t.rejects(refused.answer, { name: 'UpstreamError', statusCode: 413, message: 'The body of the request is too large' })
  t.equal(waiting.size, 0)
  large.end('more than is read')
  await once(large, 'end')
  t.pass('the rest is read and dropped, so that the client can send it')

  const broken = new PassThrough()
  const cut = send(broken)
  broken.write('a')
  broken.destroy(new Error('gone'))
  await t.rejects(cut.answer, { name: 'UpstreamError', statusCode: 502 }, 'a body that breaks off ends the request')
})
