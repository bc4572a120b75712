import { writeFileSync } from 'node:fs'
import { Session } from 'node:inspector'
import { fileURLToPath } from 'node:url'
import { setFlagsFromString } from 'node:v8'

// Loaded with --import into each process of a test: it notes which characters of the sources run, for each test of the
// file.
const root = new URL('../../../', import.meta.url)
const { REACH_INTO: folder, REACH_TEST: file } = process.env
const reached = {}
const ms = {}
let began = performance.now()

// V8 does not count the calls of what either of its optimizing compilers has inlined.
for (const compiler of ['opt', 'maglev']) setFlagsFromString(`--no-${compiler}`)
const session = new Session()
session.connect()
const post = (method, params) => {
  let result
  session.post(method, params, (error, answer) => {
    if (error) throw error
    result = answer
  })
  return result
}
post('Profiler.enable')
post('Profiler.startPreciseCoverage', { callCount: true, detailed: true })

/** What has run since the last time, under the name of a test; under '' what no test of its own has done. */
function note (name) {
  const files = reached[name] ??= {}
  ms[name] = (ms[name] ?? 0) + Math.round(performance.now() - began)
  began = performance.now()
  for (const { url, functions } of post('Profiler.takePreciseCoverage').result) {
    if (!url.startsWith(root.href) || url.includes('/node_modules/')) continue
    const path = fileURLToPath(url).slice(fileURLToPath(root).length)
    const spans = functions.flatMap(({ ranges }) => ranges)
    if (spans.some(({ count }) => count > 0)) files[path] = (files[path] ?? []).concat(paint(spans))
  }
}

/** Inner ranges have the word over the outer ones. Gives pairs of start and end. */
function paint (spans) {
  const marks = new Uint8Array(Math.max(...spans.map(({ endOffset }) => endOffset)))
  spans.sort((a, b) => (b.endOffset - b.startOffset) - (a.endOffset - a.startOffset))
  for (const { startOffset, endOffset, count } of spans) marks.fill(count > 0 ? 1 : 0, startOffset, endOffset)
  const pairs = []
  for (let place = marks.indexOf(1); place !== -1;) {
    const end = marks.indexOf(0, place)
    pairs.push([place, end === -1 ? marks.length : end])
    place = end === -1 ? -1 : marks.indexOf(1, end)
  }
  return pairs
}

let current = ''
if (process.argv[1] === file) {
  const { default: t } = await import('tap')
  // A test starts after the one before it has run; what says that one ended may come later.
  t.on('subtestStart', test => {
    note(current)
    current = test.name
  })
}
process.on('exit', () => {
  note(current)
  writeFileSync(`${folder}/${process.pid}.json`, JSON.stringify({ reached, ms }))
})
