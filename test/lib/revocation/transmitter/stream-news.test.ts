import t from 'tap'
import { createStreamVerification, streamNameOf } from '../../../../lib/revocation/transmitter/stream-news.ts'

t.test('A state is waited for in twenty steps of 50 ms, and known in the last one', async t => {
  const rows: ReadonlyArray<readonly [arrivesIn: number, isKnown: boolean, waits: number]> =
    [[0, true, 0], [1, true, 1], [20, true, 20], [21, false, 20]]
  for (const [arrivesIn, isKnown, waits] of rows) {
    const waited: number[] = []
    const verification = createStreamVerification({
      after (ms, run) {
        waited.push(ms)
        if (waited.length === arrivesIn) verification.note({ event: 'asked s', at: 1 })
        setImmediate(run)
        return () => {}
      }
    })
    if (arrivesIn === 0) verification.note({ event: 'asked s', at: 1 })
    t.equal(await verification.isStateKnown('s'), isKnown)
    t.strictSame(waited, Array(waits).fill(50))
  }
})

t.test('What was asked for is overdue if the answer before it is missing as well', t => {
  const rows: ReadonlyArray<readonly [now: number, verifiedAt: number | undefined, isOverdue: boolean]> = [
    [1060, undefined, false],
    [1061, undefined, true],
    [1061, 339, true],
    [1061, 340, false],
    [1061, 1000, false]
  ]
  for (const [now, verifiedAt, isOverdue] of rows) {
    const { note, verifiedAt: last, isOverdue: judge } = createStreamVerification({ after: () => () => {} })
    t.equal(judge(now, 600), false, 'nothing was asked for')
    for (const at of [900, 1000, 950]) note({ event: 'asked s', at })
    if (verifiedAt !== undefined) for (const at of [verifiedAt, 1]) note({ event: 'verification', at })
    t.strictSame([last(), judge(now, 600)], [verifiedAt, isOverdue], `${now}, ${verifiedAt}`)
  }
  t.end()
})

t.test('What is asked for is the newest, whatever the clocks that asked', t => {
  const { note, asking, isOverdue } = createStreamVerification({ after: () => () => {} })
  t.equal(asking('t', 'st t', 's', 1000).at, 1000)
  note({ event: 'asked s', at: 1_000_000 })
  t.strictSame([asking('t', 'st t', 's', 1000).at, asking('t', 'st t', 's', 1_000_001).at], [1_000_000.001, 1_000_001])
  t.strictSame([isOverdue(1000, 600), isOverdue(1060, 600), isOverdue(1061, 600)], [false, false, true])
  t.equal(asking('t', 'st t', 's', 1061).at, 1_000_000.001)
  t.end()
})

t.test('Streams of one transmitter have names of their own', t => {
  const own = {
    delivery: 'poll',
    clientId: 'c',
    streamId: 's',
    pushUrl: 'https://a.example',
    endpoint: 'https://t.example/poll',
    audience: 'a'
  } as const
  const name = streamNameOf('https://t.example', own)
  t.match(name, /^[\w-]{16} https:\/\/t\.example$/)
  t.equal(streamNameOf('https://t.example', { ...own }), name)
  const others = ['clientId', 'streamId', 'endpoint', 'audience'].map(member => ({ ...own, [member]: undefined }))
  const pushed = [undefined, 'https://a.example', 'https://b.example'].map(pushUrl =>
    ({ ...own, delivery: 'push', pushUrl }) as const
  )
  t.equal(new Set([own, ...others, ...pushed].map(given => streamNameOf('https://t.example', given))).size, 8)
  t.equal(streamNameOf('https://t.example', { ...own, pushUrl: undefined }), name, 'where nothing is pushed')
  t.equal(
    streamNameOf('https://t.example', { ...pushed[1]!, endpoint: undefined }),
    streamNameOf('https://t.example', pushed[1]!),
    'where nothing is polled'
  )
  t.end()
})
