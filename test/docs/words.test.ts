import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { root } from '../helpers/documents.ts'

/** What is read: words outside code blocks. A mark without a letter or digit, such as the bars of a table, is none. */
function wordsIn (text: string): number {
  return text.replace(/^[ \t]*(```|~~~)[^]*?^[ \t]*\1.*$/gm, '').split(/\s+/).filter(word => /[\p{L}\p{N}]/u.test(word))
    .length
}

const wordsOf = (path: string): number => wordsIn(readFileSync(join(root, path), 'utf8'))
const sum = (paths: readonly string[]): number => paths.map(wordsOf).reduce((a, b) => a + b, 0)
const pages = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' }).filter(name =>
  name.endsWith('.md')
).map(name => `docs/${name}`)

t.test('Words are counted outside code blocks', async t => {
  t.equal(wordsIn('Two words | -\n```sh\nnone of these\n```\n  ```ts\n  nor these\n  ```\nthree'), 3)
})

t.test('The docs stay short enough to be read', async t => {
  const guide = pages.filter(path => path.startsWith('docs/guide/'))
  t.equal(guide.length, 11, 'the guide has eleven pages')
  t.ok(sum(guide) < 10_000, 'the guide has less than 10,000 words')
  t.ok(sum(pages) < 26_000, `all docs have less than 26,000 words, and not ${sum(pages)}: cut what is said twice`)
  t.ok(wordsOf('README.md') <= 550, `the README has at most 550 words, and not ${wordsOf('README.md')}`)
})
