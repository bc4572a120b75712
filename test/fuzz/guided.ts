import type { Meter } from './coverage.ts'
import type { Parser } from './parsers.ts'
import type { Random } from './random.ts'

/** An input that crashed a parser, or that cost too much for its length. */
export interface Finding {
  readonly parser: string
  readonly fault: string
  readonly input: string
}

export interface Guided {
  readonly inputs: number
  /** Inputs that reached what no other had reached. */
  readonly corpus: readonly string[]
  readonly blocks: number
  readonly findings: readonly Finding[]
  /** The most operations of a large input for each of a small one of the same kind, as a share of what is allowed. */
  readonly worstShare: number
}

const SMALL_BYTES = 1600
const LARGE_BYTES = 16_000
/** Ten times the bytes may take ten times the operations. The rest is for what is done once. */
const MOST_GROWTH = LARGE_BYTES / SMALL_BYTES * 1.2
/** So much for each byte is cheap in any case, also if a small input is refused early. */
const CHEAP_OPERATIONS = 10
const MOST_CHANGES = 4
const MOST_BYTES = 4000

/** Texts that parsers look for. */
const WORDS = ['.', ',', ';', '=', '"', '\\', '%', '%2e', '%2F', '%zz', '/', '//', '/..', '/./', '?', '#', '@', ':', '[', ']', '[::1]', '{', '}', '{}', '[[', 'null', '1e999', '\\u0000', '__proto__', '\0', '\t', ' ', '\n', '\x7f', '\x80', '\xff', '\xc3\xa9', '\xed\xa0\x80', 'http://', 'https://', 'DPoP ', 'Bearer ', 'Hash=', 'Cert="', 'host=', 'proto=', '=="', '- ', '\n  ', ': ', '&a ', '*a', '!!x ', '-----BEGIN CERTIFICATE-----']

function change (random: Random, text: string, corpus: readonly string[]): string {
  const at = random.below(text.length + 1)
  const to = Math.min(text.length, at + 1 + random.below(random.oneIn(4) ? 40 : 4))
  switch (random.below(8)) {
    case 0: return text.slice(0, at) + String.fromCharCode(random.below(256)) + text.slice(at)
    case 1: return text.slice(0, at) + text.slice(to)
    case 2: return text.slice(0, at) + String.fromCharCode(random.below(256)) + text.slice(at + 1)
    case 3: return text.slice(0, at) + random.among(WORDS) + text.slice(at)
    case 4: return text.slice(0, to) + text.slice(at, to).repeat(1 + random.below(20)) + text.slice(to)
    case 5: return text.slice(0, at) + random.among(corpus).slice(random.below(30)) + text.slice(to)
    case 6: return text.slice(0, at) + random.among(WORDS) + text.slice(to)
    default: return text.slice(0, at)
  }
}

async function crash ({ run, refusals }: Parser, text: string): Promise<string | undefined> {
  try {
    await run(text)
    return undefined
  } catch (error) {
    return refusals.some(refusal => error instanceof refusal) ? undefined : String((error as Error).stack ?? error)
  }
}

/** The text with one piece of it again and again, so that it has about so many bytes. */
function pump (text: string, at: number, to: number, bytes: number): string {
  const piece = text.slice(at, to)
  return text.slice(0, at) + piece.repeat(Math.max(1, Math.round((bytes - text.length + piece.length) / piece.length))) + text.slice(to)
}

async function growth (meter: Meter, parser: Parser, text: string, random: Random): Promise<{ share: number, finding?: Finding }> {
  const at = random.below(Math.max(1, text.length))
  const to = at + 1 + random.below(random.oneIn(2) ? 3 : 30)
  const base = text === '' ? random.among(WORDS) : text
  const [small, large] = [SMALL_BYTES, LARGE_BYTES].map(bytes => pump(base, Math.min(at, base.length - 1), to, bytes)) as [string, string]
  const faults: string[] = []
  const cost = async (input: string): Promise<number> => (await meter.run(async () => {
    const fault = await crash(parser, input)
    if (fault) faults.push(fault)
  })).operations
  let [less, more] = [await cost(small), await cost(large)]
  const shareOf = (): number => more / Math.max(less * MOST_GROWTH, CHEAP_OPERATIONS * LARGE_BYTES)
  // V8 counts less of what it has just compiled. What really costs too much does so each time.
  for (let again = 0; again < 3 && shareOf() > 1; again++) [less, more] = [Math.max(less, await cost(small)), Math.min(more, await cost(large))]
  const share = shareOf()
  const common = { parser: parser.name, input: large }
  if (faults.length > 0) return { share, finding: { ...common, fault: faults[0]! } }
  return share > 1 ? { share, finding: { ...common, fault: `${less} operations for ${small.length} bytes, ${more} for ${large.length}` } } : { share }
}

/** Changes inputs that have reached something new, and keeps those that reach more, until `isOver`. */
export async function explore (meter: Meter, parser: Parser, random: Random, isOver: (inputs: number) => boolean): Promise<Guided> {
  const known = new Set<string>()
  const corpus: string[] = []
  const findings: Finding[] = []
  let inputs = 0
  let worstShare = 0

  async function look (text: string): Promise<void> {
    inputs++
    let fault: string | undefined
    const { blocks } = await meter.run(async () => { fault = await crash(parser, text) })
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
