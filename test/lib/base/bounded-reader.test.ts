import { once } from 'node:events'
import { PassThrough, Readable } from 'node:stream'
import t from 'tap'
import {
  createBoundedReader,
  senderAt,
  type BodySender,
  type BoundedReaderOptions
} from '../../../lib/base/bounded-reader.ts'

const KIB = 1024

/** Bodies of at most 4 KiB, and 8 KiB of all. */
function openReader (given: Partial<BoundedReaderOptions> = {}) {
  const read = createBoundedReader({
    maxBytes: 4 * KIB,
    maxHeldBytes: 8 * KIB,
    timeoutMs: 5,
    after: () => () => {},
    errorOf: (status, message, headers) => Object.assign(new Error(message), { status, headers }),
    ...given
  })
  /** A body that is sent in parts, and what came of it: its size, or the status of the refusal. */
  return (senders: readonly BodySender[] = []) => {
    const source = new PassThrough()
    const answer = new PassThrough()
    const outcome = read(source, answer, senders).then(({ length }) => length, ({ status }) => status as number)
    return {
      outcome,
      source,
      async send (bytes: number) {
        source.write(Buffer.alloc(bytes))
        await new Promise(setImmediate)
      },
      async answered () {
        await once(answer.destroy(), 'close')
      }
    }
  }
}

t.test('Where there is no room, the oldest unfinished body gives way', async t => {
  const open = openReader()
  const [first, second, third] = [open(), open(), open()]
  await second.send(4 * KIB)
  await first.send(4 * KIB - 1)
  await third.send(1)
  t.equal(await second.outcome, 503, 'the first of which something was held')
  await third.send(2 * KIB)
  first.source.end('x')
  third.source.end()
  t.strictSame(await Promise.all([first.outcome, third.outcome]), [4 * KIB, 2 * KIB + 1])
})

t.test('A whole body keeps its room until it was answered, and then the newest has none', async t => {
  const open = openReader()
  const [first, second] = [open(), open()]
  for (const { source } of [first, second]) source.end(Buffer.alloc(4 * KIB))
  t.strictSame(await Promise.all([first.outcome, second.outcome]), [4 * KIB, 4 * KIB])
  const refused = open()
  await refused.send(1)
  t.equal(await refused.outcome, 503)
  await first.answered()
  const later = open()
  later.source.end('x')
  t.equal(await later.outcome, 1)
})

t.test('A sender beyond its share takes the room of its own bodies only', async t => {
  const open = openReader()
  const one = { name: 'one', maxBytes: 4 * KIB }
  const [other, first] = [open([{ name: 'other', maxBytes: 4 * KIB }]), open([one])]
  await other.send(3 * KIB)
  await first.send(3 * KIB)
  const second = open([one])
  await second.send(3 * KIB)
  t.equal(await first.outcome, 503)
  for (const { source } of [other, second]) source.end()
  t.strictSame(await Promise.all([other.outcome, second.outcome]), [3 * KIB, 3 * KIB])
})

t.test('A body that needs more than the share of its sender gives way itself', async t => {
  const body = openReader()([{ name: 'one', maxBytes: 2 * KIB }])
  await body.send(2 * KIB)
  await body.send(1)
  t.equal(await body.outcome, 503)
})

t.test('What was answered does not give way any more, and the shortest body does', async t => {
  const open = openReader({ maxHeldBytes: 64 * KIB })
  const sender = [{ name: 'one', maxBytes: 7 * KIB }]
  const [whole, empty, short] = [open(sender), open(sender), open(sender)]
  whole.source.end(Buffer.alloc(4 * KIB))
  empty.source.end()
  await short.send(1)
  short.source.end()
  t.strictSame(await Promise.all([whole.outcome, empty.outcome, short.outcome]), [4 * KIB, 0, 1])
  for (const { answered } of [empty, short]) await answered()
  const more = open(sender)
  await more.send(4 * KIB)
  t.equal(await more.outcome, 503)

  const openTiny = openReader({ maxBytes: 1 })
  const [first, second] = [openTiny([{ name: 'one', maxBytes: 1 }]), openTiny([{ name: 'one', maxBytes: 1 }])]
  await first.send(1)
  await second.send(1)
  t.equal(await first.outcome, 503)
  second.source.end()
  t.equal(await second.outcome, 1)
})

t.test('Nothing is held of what was refused, or of a client that has gone', async t => {
  const open = openReader()
  for (let n = 0; n < 5; n++) {
    const [large, gone, answered] = [open(), open(), open()]
    await large.send(4 * KIB)
    await large.send(1)
    t.equal(await large.outcome, 413)
    await gone.send(4 * KIB)
    gone.source.destroy()
    t.equal(await gone.outcome, 499)
    await answered.send(4 * KIB)
    await answered.answered()
    t.equal(await answered.outcome, 499)
  }
})

t.test('A body has so many pieces, and no more', async t => {
  const open = openReader({ maxPieces: 2 })
  const [whole, more] = [open(), open()]
  for (let n = 0; n < 2; n++) await whole.send(1)
  whole.source.end()
  t.equal(await whole.outcome, 2)
  for (let n = 0; n < 3; n++) await more.send(1)
  t.equal(await more.outcome, 413)
})

t.test('The connection of a refused body is closed, and who had no room is told when to come again', async t => {
  const read = createBoundedReader({
    maxBytes: 1,
    maxHeldBytes: 0,
    timeoutMs: 5,
    after: () => () => {},
    errorOf: (status, message, headers) => Object.assign(new Error(message), { status, headers })
  })
  const refusalOf = async (bytes: number): Promise<unknown> =>
    read(Readable.from([Buffer.alloc(bytes)]), new PassThrough()).catch(({ status, headers }) => [status, headers])
  t.strictSame(await refusalOf(2), [413, { connection: 'close' }])
  t.strictSame(await refusalOf(1), [503, { connection: 'close', 'retry-after': '1' }])
})

t.test('An address of IPv6 is that of its /64, and one of IPv4 in IPv6 is that of IPv4', async t => {
  const rows: ReadonlyArray<readonly [address: string, other: string, isSame: boolean]> = [
    ['192.0.2.1', '::ffff:192.0.2.1', true],
    ['192.0.2.1', '192.0.2.2', false],
    ['2001:db8::1', '2001:db8:0:0:ffff:ffff:ffff:ffff', true],
    ['2001:db8::1', '2001:DB8:0:0::2', true],
    ['2001:db8:0:1::1', '2001:db8::1', false],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::', true],
    ['fe80::1%eth0', 'fe80::2', true],
    ['::1', '::2', true],
    ['::1', '1::', false]
  ]
  for (const [address, other, isSame] of rows) {
    t.equal(senderAt(address, 1).name === senderAt(other, 1).name, isSame, `${address} ${other}`)
  }
})
