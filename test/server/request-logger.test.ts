import { Writable } from 'node:stream'
import Fastify from 'fastify'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import t from 'tap'
import type { Test } from 'tap'
import { makeChildrenLate } from '../../server/request-logger.ts'

const LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace'] as const

/** What a handler writes, line by line, and how often a child logger was made. */
async function write (t: Test, level: string, handler: (request: FastifyRequest) => void, options = {}) {
  const lines: Array<Record<string, unknown>> = []
  const stream = new Writable({
    write: (chunk, _encoding, done) => {
      lines.push(JSON.parse(String(chunk)))
      done()
    }
  })
  const app: FastifyInstance = Fastify({
    logger: { level, stream },
    disableRequestLogging: true,
    genReqId: () => 'r1'
  })
  t.teardown(() => app.close())
  const { child } = app.log
  let children = 0
  app.log.child = function (...given: Parameters<typeof child>) {
    children++
    return Reflect.apply(child, this, given)
  }
  makeChildrenLate(app.log)
  app.get('/', options, async request => {
    handler(request)
    return 'done'
  })
  await app.inject('/')
  return { lines: lines.map(({ level, reqId, msg, ...rest }) => [level, reqId, msg, rest['a']]), children }
}

t.test('A line of an enabled level names the request, and one child is made for all lines', async t => {
  for (const [index, level] of LEVELS.entries()) {
    const written = await write(t, level, ({ log }) => {
      for (const name of LEVELS) log[name]({ a: 1 }, '%s', name)
    })
    const expected = LEVELS.slice(0, index + 1).map((name, place) => [60 - place * 10, 'r1', name, 1])
    t.strictSame(written, { lines: expected, children: 1 }, level)
  }
})

t.test('Without an enabled line no child is made', async t => {
  t.strictSame(
    await write(t, 'warn', ({ log }) => {
      log.info('a')
      log.silent('b')
    }),
    { lines: [], children: 0 }
  )
})

t.test('A level can be read and set for one request, and children name the request', async t => {
  const written = await write(t, 'warn', ({ log }) => {
    log.warn(log.level)
    log.level = 'info'
    log.info('now')
    log.child({ a: 2 }).info('of a child')
  })
  t.strictSame(written.lines, [[40, 'r1', 'warn', undefined], [30, 'r1', 'now', undefined], [
    30,
    'r1',
    'of a child',
    2
  ]])
})

/** What pino's loggers have beyond the types of Fastify. */
interface PinoMembers {
  setBindings (bindings: object): void
  isLevelEnabled (level: string): boolean
  readonly levelVal: number
}

t.test('The logger of a request has all members of pino', async t => {
  const written = await write(t, 'warn', ({ log }) => {
    const pino = log as typeof log & PinoMembers
    pino.setBindings({ a: 3 })
    log.warn(`${pino.levelVal} ${pino.isLevelEnabled('info')}`)
  })
  t.strictSame(written, { lines: [[40, 'r1', '40 false', 3]], children: 1 })
})

t.test('The children of all others are as pino makes them', async t => {
  const { log } = Fastify({ logger: { level: 'warn', stream: { write () {} } } })
  const { child } = log
  makeChildrenLate(log)
  const own = log.child({ a: 1 }, { msgPrefix: '[plugin] ' })
  t.equal(Object.getPrototypeOf(own), log)
  t.throws(() => log.child(undefined as never), { message: 'missing bindings for child Pino' })
  t.not(log.child, child)
})

t.test('A level of the route holds', async t => {
  const { lines } = await write(t, 'warn', ({ log }) => {
    log.debug('here')
  }, { logLevel: 'debug' })
  t.strictSame(lines, [[20, 'r1', 'here', undefined]])
})

t.test('The logger of a server that logs nothing stays as it is', async t => {
  const { log } = Fastify()
  const { child } = log
  makeChildrenLate(log)
  t.equal(log.child, child)
})
