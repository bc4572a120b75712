import t from 'tap'
import { countMembers, quoteAfter } from '../../../lib/base/json.ts'

t.test('JSON is within its bounds up to the last level and the last value.', async t => {
  const rows: ReadonlyArray<{ json: string, depth: number, values: number, members: number }> = [
    { json: '0', depth: 0, values: 1, members: 0 },
    { json: '[]', depth: 1, values: 1, members: 0 },
    { json: ' { } ', depth: 1, values: 1, members: 0 },
    { json: '[ 0 ]', depth: 1, values: 2, members: 0 },
    { json: '[[],[[]],{}]', depth: 3, values: 5, members: 0 },
    { json: '{"a":1}', depth: 1, values: 2, members: 1 },
    { json: '{"a":{"b":[1,2,{"c":null}]},"d":""}', depth: 4, values: 8, members: 4 },
    { json: '["[{,:", "\\",[" , "\\\\"]', depth: 1, values: 4, members: 0 }
  ]
  for (const { json, depth, values, members } of rows) {
    t.equal(countMembers(Buffer.from(json), { maxDepth: depth, maxValues: values }), members, json)
    if (depth > 0) {
      t.equal(
        countMembers(Buffer.from(json), { maxDepth: depth - 1, maxValues: values }),
        undefined,
        `${json}, a level more`
      )
    }
    if (values > 1) {
      t.equal(
        countMembers(Buffer.from(json), { maxDepth: depth, maxValues: values - 1 }),
        undefined,
        `${json}, a value more`
      )
    }
  }
})

t.test('What is no JSON is measured as far as a parser would read it.', async t => {
  for (const text of ['', '"', '"\\', '"[[[[', ']]]]', '}[[', '\0']) {
    t.type(countMembers(Buffer.from(text), { maxDepth: 2, maxValues: 2 }), 'number', text)
  }
  for (const text of ['[[[', '[0,0', '}[[[']) {
    t.equal(countMembers(Buffer.from(text), { maxDepth: 2, maxValues: 2 }), undefined, text)
  }
})

t.test('The end of a text is found wherever its escapes are, far and near.', t => {
  const lengths = [0, 1, 2, 30, 31, 32, 33, 34, 63, 64, 65, 66, 100]
  const ends = ['"', '\\""', '\\\\"', '\\\\\\""', '\\\\\\\\"', '']
  const wrong: string[] = []
  for (const before of lengths) {
    for (const between of lengths) {
      for (const escape of ['', '\\"', '\\\\', '\\u0022', '\u20ac']) {
        for (const end of ends) {
          const text = `${'x'.repeat(before)}${escape}${'x'.repeat(between)}${end}`
          const json = Buffer.from(`"${text},"a":1`)
          if (quoteAfter(json, 1) !== oneByOne(json, 1)) wrong.push(text)
        }
      }
    }
  }
  t.strictSame(wrong, [])
  for (const text of ['', '\\', 'x'.repeat(40) + '\\', 'x'.repeat(31) + '\\', 'x'.repeat(40) + '\\"']) {
    t.equal(quoteAfter(Buffer.from(text), 0), Buffer.byteLength(text), `${text}: without an end`)
  }
  t.end()

  function oneByOne (json: Buffer, at: number) {
    let end = at
    while (end < json.length && json[end] !== 0x22) end += json[end] === 0x5c ? 2 : 1
    return Math.min(end, json.length)
  }
})

t.test('A text is searched, not walked through: only what is near its quotes is looked at byte by byte.', t => {
  let looks = 0
  const counted = (text: string) => {
    const bytes = Buffer.from(text)
    return new Proxy(bytes, {
      get (target, name) {
        if (typeof name === 'string' && /^\d+$/.test(name)) looks++
        const value: unknown = Reflect.get(target, name)
        return typeof value === 'function' ? value.bind(target) : value
      }
    })
  }
  for (
    const [text, most] of [[`"${'x'.repeat(10_000)}"`, 100], [`"${'x'.repeat(10_000)}\\"${'x'.repeat(10_000)}"`, 200], [
      `"${'\\\\'.repeat(5_000)}"`,
      25_000
    ]] as const
  ) {
    looks = 0
    t.equal(countMembers(counted(text), { maxDepth: 1, maxValues: 1 }), 0)
    t.ok(looks <= most, `${looks} of ${text.length}`)
  }
  t.end()
})
