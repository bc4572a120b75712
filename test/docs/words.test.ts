import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { root, textOf } from '../helpers/documents.ts'

/** What is read: words outside code blocks. A mark without a letter or digit, such as the bars of a table, is none. */
function wordsIn (text: string) {
  return text.replace(/^[ \t]*(```|~~~)[^]*?^[ \t]*\1.*$/gm, '').split(/\s+/).filter(word => /[\p{L}\p{N}]/u.test(word))
    .length
}

const wordsOf = (path: string) => wordsIn(textOf(path))
const sum = (paths: readonly string[]) => paths.map(wordsOf).reduce((a, b) => a + b, 0)
const pages = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' }).filter(name =>
  name.endsWith('.md')
).map(name => `docs/${name}`)

t.test('The docs stay short enough to be read', async t => {
  t.ok(sum(pages) < 26_000, `all docs have less than 26,000 words, and not ${sum(pages)}: cut what is said twice`)
})

t.test('The first page is short, and so is each page that leads here from another tool', async t => {
  t.ok(wordsOf('README.md') <= 550, `README.md: ${wordsOf('README.md')}`)
  const moving = pages.filter(page => page.startsWith('docs/guide/moving/'))
  t.equal(moving.length, 8)
  for (const page of moving) {
    t.ok(wordsOf(page) <= 350, `${page}: ${wordsOf(page)}`)
    t.match(textOf(page).match(/^\| theirs \| ours \| not carried over; instead \|\n(?:\|.+\|\n)+/gm), { length: 1 }, page)
    t.equal(textOf(page).match(/^\| ---/gm)?.length, 1, `${page}: one table`)
  }
})
