import t from 'tap'
import { countMembers } from '../../lib/json-bounds.ts'

t.test('JSON is within its bounds up to the last level and the last value.', t => {
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
    if (depth > 0) t.equal(countMembers(Buffer.from(json), { maxDepth: depth - 1, maxValues: values }), undefined, `${json}, a level more`)
    if (values > 1) t.equal(countMembers(Buffer.from(json), { maxDepth: depth, maxValues: values - 1 }), undefined, `${json}, a value more`)
  }
  t.end()
})

t.test('What is no JSON is measured as far as a parser would read it.', t => {
  for (const text of ['', '"', '"\\', '"[[[[', ']]]]', '}[[', '\0']) t.type(countMembers(Buffer.from(text), { maxDepth: 2, maxValues: 2 }), 'number', text)
  for (const text of ['[[[', '[0,0', '}[[[']) t.equal(countMembers(Buffer.from(text), { maxDepth: 2, maxValues: 2 }), undefined, text)
  t.end()
})
