import t from 'tap'
import { judge, type Probe, type Verdict, type Word } from './records.ts'

/** Kept for 100 s. Words as `says moment start-end`, all in seconds; one that ends in `?` was not acknowledged. */
function judged (asked: number, probe: Probe, ...texts: string[]): Verdict {
  const words = texts.map((text): Word => {
    const [, says, moment, start, end, doubt] = /^(\w+) (\d+) (\d+)-(\d+)(\??)$/.exec(text)!
    return {
      says: says as Word['says'],
      moment: [Number(moment) * 1000, Number(moment) * 1000],
      time: [Number(start) * 1000, Number(end) * 1000],
      outcome: doubt ? 'unknown' : 'acknowledged'
    }
  })
  const time = [asked * 1000, asked * 1000] as const
  return judge(words, [100_000, 100_000], { probe, time }, ackMs => ackMs + 1000 < time[0])
}

const OLD: Probe = { iat: 1000 }

t.test('What was said about a name merges by maximum, and lives until its end.', async t => {
  const rows: ReadonlyArray<
    { title: string, words: string[], asked?: number, probe?: Probe, expected: 'passes' | 'refused' | 'either' }
  > = [
    { title: 'nothing was said', words: [], expected: 'passes' },
    { title: 'an ended session', words: ['ended 1000 1000-1001'], expected: 'refused' },
    { title: 'within the second', words: ['ended 1000 1000-1001'], asked: 1002, expected: 'either' },
    { title: 'no acknowledgement', words: ['ended 1000 1000-1001?'], expected: 'either' },
    { title: 'shortly after its end', words: ['ended 1000 1000-1001'], asked: 1101, expected: 'either' },
    { title: 'long after its end', words: ['ended 1000 1000-1001'], asked: 1104, expected: 'passes' },
    { title: 'dated ahead, so kept for longer', words: ['ended 1050 1000-1001'], asked: 1120, expected: 'refused' },
    { title: 'ended again', words: ['ended 1000 1000-1001', 'ended 1050 1050-1051'], asked: 1120, expected: 'refused' },
    {
      title: 'the same event again changes nothing',
      words: ['ended 1000 1000-1001', 'ended 1000 1050-1051'],
      asked: 1120,
      expected: 'either'
    },
    {
      title: 'the same event again, when it was over',
      words: ['ended 1000 1000-1001', 'ended 1000 1110-1111'],
      asked: 1120,
      expected: 'refused'
    },
    { title: 'a later token', words: ['cutoff 1000 1000-1001'], probe: { iat: 1010 }, expected: 'passes' },
    { title: 'a token of the next second', words: ['cutoff 1000 1000-1001'], probe: { iat: 1001 }, expected: 'either' },
    {
      title: 'a cutoff hides no logout',
      words: ['logout 1000 1000-1001', 'cutoff 1003 1003-1004'],
      probe: { iat: 1010, authTime: 990 },
      expected: 'refused'
    },
    { title: 'a blocked user, for ever', words: ['blocked 1000 1000-1001'], asked: 9000, expected: 'refused' },
    { title: 'enabled later', words: ['blocked 1000 1000-1001', 'enabled 1001 1002-1003'], expected: 'passes' },
    { title: 'enabled earlier', words: ['blocked 1001 1000-1001', 'enabled 1000 1002-1003'], expected: 'refused' },
    { title: 'enabled at the same moment', words: ['blocked 1000 1000-1001', 'enabled 1000 1002-1003'], expected: 'refused' },
    { title: 'taken back', words: ['ended 1000 1000-1001', 'undo 1002 1002-1003'], expected: 'passes' },
    { title: 'perhaps taken back', words: ['ended 1000 1000-1001', 'undo 1002 1002-1003?'], expected: 'either' },
    {
      title: 'said again after that',
      words: ['ended 1000 1000-1001', 'undo 1002 1002-1003', 'ended 1003 1003-1004'],
      expected: 'refused'
    }
  ]
  for (const { title, words, asked = 1010, probe = OLD, expected } of rows) {
    for (const order of [words, [...words].reverse()]) {
      const { mustRefuse, mayRefuse } = judged(asked, probe, ...order)
      t.equal(mustRefuse ? 'refused' : mayRefuse ? 'either' : 'passes', expected, title)
    }
  }
})
