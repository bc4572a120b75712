import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { basename } from 'node:path'
import type { Test } from 'tap'

const HEAD = /^#### (.+)\n/m
/** Indented lines below another one, such as the values that a check compared; then checks that do not matter. */
const BLOCKS = [/(?<=^ {2}\S.*\n)(?: {3,}\S.*\n)+/gm, /(?:^ {2}[\u2713\u2013] .*\n(?:@.*\n)?){2,}/gm]
const FOLDED = /^(@[\da-f]{8})\n/gm

/**
 * Compares whole outputs with the text file beside a test, each by its test and its number in it. Blocks of lines that
 * recur stand once in the file, at its end. `npx tap --snapshot FILE` writes it anew: read the difference before it is
 * committed. An entry that no test uses is a failure, unless a test is skipped. With `--grep` the file stays as it is.
 * Call it after what the module awaits, and before its tests.
 * @param now the time to which those in an output are put in relation, in Unix seconds; without it each is one word
 */
export function recordedOutputs (t: Test, testFile: string, now?: number) {
  const path = testFile.replace(/\.test\.ts$/, '.recorded.txt')
  const isWritten = process.env.TAP_SNAPSHOT === '1'
  const parts = !isWritten && existsSync(path) ? readFileSync(path, 'utf8').split(HEAD).slice(1) : []
  const known = new Map(Array.from({ length: parts.length / 2 }, (_, at) => [parts[2 * at]!, parts[2 * at + 1]!]))
  const below = new Map<string, string>()
  const fold = (block: string) => {
    const name = `@${createHash('sha256').update(block).digest('hex').slice(0, 8)}`
    below.set(name, block)
    return `${name}\n`
  }
  const unused = new Set(known.keys())
  const entry = (name: string): string | undefined => {
    unused.delete(name)
    return known.get(name)?.replace(FOLDED, (_all, block) => entry(block)!)
  }
  let current = t
  let count = 0
  t.beforeEach(child => {
    current = child as Test
    count = 0
  })
  // Behind all tests of the file, which are queued by then.
  setImmediate(() =>
    t.test(`All of ${basename(path)} is used`, async child => {
      if (isWritten) {
        writeFileSync(path, [...known, ...below].map(([head, text]) => `#### ${head}\n${text}`).join(''))
      } else if (t.counts.skip === 0) child.strictSame([...unused], [])
    })
  )
  return (about: unknown) => {
    const test = current
    const head = `${test.name} ${++count}`
    // In the order of the calls, of which several may run at once.
    if (isWritten) known.set(head, '')
    return (output: string) => {
      const text = stable(`${JSON.stringify(about)}\n${output}\n`, now)
      if (isWritten) {
        known.set(head, BLOCKS.reduce((text, block) => text.replace(block, fold), text))
      } else test.equal(text, entry(head), head)
    }
  }
}

/** What is another one in each run, as words. Those that are the same in a text have the same word. */
function stable (text: string, now?: number) {
  const words = new Map<string, string>()
  const named = (kind: string) => (value: string) => {
    if (!words.has(value)) words.set(value, `<${kind} ${words.size + 1}>`)
    return words.get(value)!
  }
  const since = (seconds: number) =>
    now === undefined || Math.abs(seconds - now) > 1e6
      ? '<a time>'
      : `<now${seconds < now ? ' ' : ' +'}${seconds - now}>`
  const known = text
    .replace(/[^\P{Cc}\n]|[\u2028-\u202e\u2066-\u2069]/gu, char => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
    // The folder of the clone may have a blank in its name.
    .replaceAll(process.cwd(), '')
    // Node says what it likes of a port that speaks another protocol.
    .replace(/[^:\n]+(?=\. Does the port speak TLS)|\((?:EPROTO|ERR_SSL_\w+)\)/g, '<reason>')
    .replace(/\/tmp\/holdfast-\w+-\w+|[^\s"']*\/\.tap\/fixtures\/[\w.-]+/g, named('folder'))
    .replace(/(?<=[\w\]]:)\d{5}\b/g, named('port'))
    .replace(/\b\d{4}-\d\d-\d\dT[\d:.]+Z/g, time => since(Date.parse(time) / 1000))
    .replace(/\b\d{4}-\d\d-\d\d(?= \(UTC\))/g, '<a day>')
    .replace(/\b\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT/g, time => since(Date.parse(time) / 1000))
    .replace(/\b1[789]\d{8}(?:\.\d+)?\b/g, seconds => since(Number(seconds)))
    .replace(/\b[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}\b/g, named('uuid'))
    .replace(/(?<![\w-])[\w-]{16,}(?:\.[\w-]{16,})+/g, named('token'))
    .replace(/(?<=\bkid"?:? +"?|nonce"?:? +"?)[\w-]{10,}|(?<![\w-])[\w-]{40,}/g, named('text'))
  return now === undefined ? known.replace(/\((?:now|in \d+ s|\d+ s ago)\)|\d+ s (?:ago|ahead)|\d+ s(?= behind)/g, '<soon>') : known
}
