import type { Meter } from './coverage.ts'
import type { Parser } from './parsers.ts'
import type { Random } from './random.ts'

/** An input that crashed a parser, or that cost too much for its length. */
interface Finding {
  parser: string
  fault: string
  input: string
}

const SMALL_BYTES = 1600
const LARGE_BYTES = 16_000
/** Beside a repeated piece. It may cost less than the piece, so it must not fill most of a small input. */
const BASE_BYTES = SMALL_BYTES / 2
/** Ten times the pieces may take ten times the operations. The rest is for what is done once. */
const MORE_THAN_LINEAR = 1.2
/** So much for each byte is cheap in any case, also if a small input is refused early. */
const CHEAP_OPERATIONS = 10
const MOST_CHANGES = 4
const MOST_BYTES = 4000

/** Texts that parsers look for. */
const WORDS = [
  '.',
  ',',
  ';',
  '=',
  '"',
  '\\',
  '%',
  '%2e',
  '%2F',
  '%zz',
  '/',
  '//',
  '/..',
  '/./',
  '?',
  '#',
  '@',
  ':',
  '[',
  ']',
  '[::1]',
  '{',
  '}',
  '{}',
  '[[',
  'null',
  '1e999',
  '\\u0000',
  '__proto__',
  '\0',
  '\t',
  ' ',
  '\n',
  '\x7f',
  '\x80',
  '\xff',
  '\xc3\xa9',
  '\xed\xa0\x80',
  'http://',
  'https://',
  'DPoP ',
  'Bearer ',
  'Hash=',
  'Cert="',
  'host=',
  'proto=',
  '=="',
  '- ',
  '\n  ',
  ': ',
  '&a ',
  '*a',
  '!!x ',
  '-----BEGIN CERTIFICATE-----'
]

function change (random: Random, text: string, corpus: readonly string[]) {
  const at = random.below(text.length + 1)
  const to = Math.min(text.length, at + 1 + random.below(random.oneIn(4) ? 40 : 4))
  switch (random.below(8)) {
    case 0:
      return text.slice(0, at) + String.fromCharCode(random.below(256)) + text.slice(at)
    case 1:
      return text.slice(0, at) + text.slice(to)
    case 2:
      return text.slice(0, at) + String.fromCharCode(random.below(256)) + text.slice(at + 1)
    case 3:
      return text.slice(0, at) + random.among(WORDS) + text.slice(at)
    case 4:
      return text.slice(0, to) + text.slice(at, to).repeat(1 + random.below(20)) + text.slice(to)
    case 5:
      return text.slice(0, at) + random.among(corpus).slice(random.below(30)) + text.slice(to)
    case 6:
      return text.slice(0, at) + random.among(WORDS) + text.slice(to)
    default:
      return text.slice(0, at)
  }
}

async function crash ({ run, refusals }: Parser, text: string) {
  try {
    await run(text)
    return undefined
  } catch (error) {
    return refusals.some(refusal => error instanceof refusal) ? undefined : String((error as Error).stack ?? error)
  }
}

/** The text with one piece of it again and again, so that it has about so many bytes. */
function pump (text: string, at: number, to: number, bytes: number) {
  const piece = text.slice(at, to)
  const pieces = Math.round((bytes - text.length + piece.length) / piece.length)
  return { text: text.slice(0, at) + piece.repeat(pieces) + text.slice(to), pieces }
}

async function growth (
  meter: Meter,
  parser: Parser,
  text: string,
  random: Random
) {
  const base = text === '' ? random.among(WORDS) : text.slice(0, BASE_BYTES)
  const at = random.below(base.length)
  const to = at + 1 + random.below(random.oneIn(2) ? 3 : 30)
  const [small, large] = [pump(base, at, to, SMALL_BYTES), pump(base, at, to, LARGE_BYTES)]
  const faults: string[] = []
  const cost = async (input: string) =>
    (await meter.run(async () => {
      const fault = await crash(parser, input)
      if (fault) faults.push(fault)
    })).operations
  const [less, more] = [await cost(small.text), await cost(large.text)]
  const share = more / Math.max(less * large.pieces / small.pieces * MORE_THAN_LINEAR, CHEAP_OPERATIONS * LARGE_BYTES)
  const common = { parser: parser.name, input: large.text }
  if (faults.length > 0) return { share, finding: { ...common, fault: faults[0]! } }
  return share > 1
    ? {
        share,
        finding: { ...common, fault: `${less} operations for ${small.pieces} pieces, ${more} for ${large.pieces}` }
      }
    : { share }
}

/** Changes inputs that have reached something new, and keeps those that reach more, until `isOver`. */
export async function explore (
  meter: Meter,
  parser: Parser,
  random: Random,
  isOver: (inputs: number) => boolean
) {
  const known = new Set<string>()
  const corpus: string[] = []
  const findings: Finding[] = []
  let inputs = 0
  let worstShare = 0

  async function look (text: string) {
    inputs++
    let fault: string | undefined
    const { blocks } = await meter.run(async () => {
      fault = await crash(parser, text)
    })
    if (fault !== undefined) findings.push({ parser: parser.name, fault, input: text })
    const fresh = blocks.filter(block => !known.has(block))
    for (const block of fresh) known.add(block)
    if (fresh.length > 0) corpus.push(text)
  }

  for (const seed of ['', ...parser.seeds]) await look(seed)
  while (!isOver(inputs)) {
    let text = random.among(random.oneIn(3) ? parser.seeds : corpus)
    for (let changes = 1 + random.below(MOST_CHANGES); changes > 0; changes--) text = change(random, text, corpus)
    await look(text.slice(0, MOST_BYTES))
    if (!random.oneIn(4)) continue
    inputs += 2
    const { share, finding } = await growth(meter, parser, random.among(corpus), random)
    worstShare = Math.max(worstShare, share)
    if (finding) findings.push(finding)
  }
  return { inputs, corpus, blocks: known.size, findings, worstShare }
}
