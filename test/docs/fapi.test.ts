import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { root } from '../helpers/documents.ts'

t.test('Each test that docs/fapi.md names is there, under that title', async t => {
  const named = [...readFileSync(join(root, 'docs/fapi.md'), 'utf8').matchAll(/\[([^\]]+)\]\(\.\.\/(test\/[\w./-]+\.test\.ts)\)/g)].filter(([, title, file]) => title !== file)
  t.ok(named.length > 25)
  for (const [, title, file] of named) t.ok(readFileSync(join(root, file!), 'utf8').includes(`t.test('${title}'`), `${file}: ${title}`)
})
