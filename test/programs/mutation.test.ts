import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { containing, exactly } from '../helpers/containing.ts'
import { openJournal } from '../mutation/journal.ts'
import type { Verdict } from '../mutation/journal.ts'
import { openCourt } from '../mutation/judge.ts'
import { findMutants, hashOf, mutate, readProgram } from '../mutation/mutants.ts'
import type { Mutant, Program } from '../mutation/mutants.ts'
import { findCandidate, measure } from '../mutation/reach.ts'
import { isListed, readListed, report } from '../mutation/report.ts'
import { sample } from '../mutation/sample.ts'

const clock = (): number => performance.now()
const program = (source: string): Program => ({ file: 'lib/guard/a.ts', source, hash: hashOf(source) })
const changesOf = (source: string): string[] =>
  findMutants(program(source)).map(({ operator, original, text }) => `${operator}: ${original} -> ${text}`)

t.test('Each kind of change is made once, at its place', async t => {
  const rows: ReadonlyArray<{ source: string, changes: readonly string[] }> = [
    { source: 'if (a) b = c', changes: ['conditional: a -> true', 'conditional: a -> false', 'statement: b = c -> ;'] },
    { source: 'x = a < b', changes: ['statement: x = a < b -> ;', 'boundary: < -> <=', 'boundary: < -> >='] },
    {
      source: 'x = a && b',
      changes: ['statement: x = a && b -> ;', 'operand: a -> true', 'logical: && -> ||', 'operand: b -> true']
    },
    { source: 'x = a ?? b', changes: ['statement: x = a ?? b -> ;', 'nullish: a ?? b -> a', 'nullish: a ?? b -> b'] },
    { source: "x = a?.b['c']", changes: ["statement: x = a?.b['c'] -> ;", 'chaining: ?. -> .'] },
    {
      source: "x = { a: 'b', c: d }",
      changes: [
        "statement: x = { a: 'b', c: d } -> ;",
        "object: { a: 'b', c: d } -> ({})",
        "string: 'b' -> ''",
        'member: d -> undefined'
      ]
    },
    {
      source: 'x = { a, b: 7 }',
      changes: [
        'statement: x = { a, b: 7 } -> ;',
        'object: { a, b: 7 } -> ({})',
        'property: a -> a: undefined',
        'member: 7 -> undefined',
        'number: 7 -> 8'
      ]
    },
    { source: 'x = { a }', changes: ['statement: x = { a } -> ;', 'object: { a } -> ({})'] },
    { source: '[a, b] = c', changes: ['statement: [a, b] = c -> ;'] },
    {
      source: 'const f = () => !/^a$/.test(b)',
      changes: [
        'statement: !/^a$/.test(b) -> undefined',
        'negation: !/^a$/.test(b) -> /^a$/.test(b)',
        'regex: /^a$/ -> /a$/',
        'regex: /^a$/ -> /^a/'
      ]
    },
    {
      source: 'function f () { if (a) return; b(); return }',
      changes: ['conditional: a -> true', 'conditional: a -> false', 'statement: return; -> ;', 'statement: b(); -> ;']
    },
    {
      source: 'const f = () => { if (a) { return undefined } b(); return undefined }',
      changes: [
        'conditional: a -> true',
        'conditional: a -> false',
        'statement: return undefined -> ;',
        'statement: b(); -> ;'
      ]
    },
    { source: 'function f () { return null }', changes: ['statement: return null -> ;'] },
    {
      source: 'function f () { try { return a() } catch { return undefined } }',
      changes: ['statement: return a() -> ;']
    },
    { source: 'function f () { try { return } finally { return } }', changes: ['statement: return -> ;'] },
    {
      source: 'function f () { if (a) return; else { return undefined } }',
      changes: ['conditional: a -> true', 'conditional: a -> false']
    },
    { source: 'function f () { for (const a of b) { return } }', changes: ['statement: return -> ;'] },
    { source: "import a from 'b'\nexport * from 'c'", changes: [] }
  ]
  for (const { source, changes } of rows) t.strictSame(changesOf(source), changes, source)
})

t.test('A mutant is the same when other lines move, and another one when its own line changes', async t => {
  const [one] = findMutants(program('function f () {\n  return a(1)\n}'))
  const [moved] = findMutants(program('\n\nfunction f () {\n    return a(1)\n}'))
  const [other] = findMutants(program('function f () {\n  return a(2)\n}'))
  t.equal(moved?.id, one?.id)
  t.not(other?.id, one?.id)
  t.hasStrict(moved, { within: 'f', isTop: false, line: 'return a(1)', lineNumber: 4 })
  t.hasStrict(findMutants(program('const a = [1]')), [{ within: '', isTop: true }])
  t.equal(mutate(program('if (a) b()'), { start: 4, end: 5, text: 'true', operator: '' }), 'if (true) b()')
})

t.test('A mutant that a test sees is killed, one that it does not see survives, and one that no test runs is reported', async t => {
  const reach = await measure('test/mutation/fixture/price.tests.ts', '', hashOfFixture, clock)
  t.notOk(reach.broken)
  const folder = mkdtempSync(join(tmpdir(), 'mutation-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const fixture = readProgram(FIXTURE)
  const court = openCourt({ past: [], budgetMs: 60_000, clock })
  t.teardown(() => court.close())
  const ended = async (within: string, operator: string): Promise<Verdict> => {
    const mutant = findMutants(fixture).find(mutant => mutant.within === within && mutant.operator === operator)!
    const candidate = findCandidate(reach, mutant, fixture)
    return court.judge(mutant, fixture, candidate ? [candidate] : [])
  }
  t.match(await ended('price', 'boundary'), {
    end: exactly('killed'),
    by: exactly('test/mutation/fixture/price.tests.ts'),
    failure: /^The price of many is lower: /
  })
  t.hasStrict(await ended('price', 'string'), { end: 'survived' })
  t.hasStrict(await ended('unused', 'arithmetic'), { end: 'unreached', runs: 0 })
  const testsOf = (name: string): unknown =>
    findCandidate(reach, findMutants(fixture).find(({ within }) => within === name)!, fixture)?.only
  for (const name of ['price', 'double']) {
    t.strictSame(
      testsOf(name),
      ['The price of many is lower', 'The price of one is the full price'],
      'only the tests that run its place, and each of them'
    )
  }
})

t.test('A test that fails once, and not again with the same change, kills nothing', async t => {
  const file = 'test/mutation/fixture/flaky.tests.ts'
  const reach = await measure(file, '', hashOfFixture, clock)
  const folder = mkdtempSync(join(tmpdir(), 'mutation-'))
  process.env.FLAKE = join(folder, 'has failed')
  t.teardown(() => {
    delete process.env.FLAKE
    rmSync(folder, { recursive: true, force: true })
  })
  const fixture = readProgram(FIXTURE)
  const court = openCourt({ past: [], budgetMs: 60_000, clock })
  t.teardown(() => court.close())
  const judged = (operator: string): Promise<Verdict> => {
    const mutant = findMutants(fixture).find(mutant =>
      mutant.within === 'price' && mutant.operator === operator &&
      mutant.line.startsWith(operator === 'boundary' ? 'if' : 'return count * 10')
    )!
    return court.judge(mutant, fixture, [findCandidate(reach, mutant, fixture)!])
  }
  t.hasStrict(await judged('boundary'), { end: 'survived', runs: 1 })
  t.ok(existsSync(process.env.FLAKE!), 'it has failed once')
  t.hasStrict(await judged('statement'), { end: 'killed', by: file })
})

t.test('A test that stops before an operator covers it too: the operator decides that nothing more runs', async t => {
  const source = program('function f () { return a?.b && c || d }')
  const end = source.source.indexOf('?.')
  const reach = {
    file: 'f.test.ts',
    hash: '',
    programs: { [source.file]: source.hash },
    ms: {},
    reached: { 'It stops': { [source.file]: [[0, end]] as const } }
  }
  const seen = (original: string): boolean =>
    findCandidate(reach, findMutants(source).find(mutant => mutant.original === original)!, source) !== undefined
  t.strictSame(['?.', '&&', 'c'].map(seen), [true, false, false])
})

const FIXTURE = 'test/mutation/fixture/price.ts'
function hashOfFixture (file: string): string | undefined {
  return file === FIXTURE ? readProgram(FIXTURE).hash : undefined
}

t.test('A verdict holds until its file changes, and that of a survivor until a test does', async t => {
  const folder = mkdtempSync(join(tmpdir(), 'mutation-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, 'journal.jsonl')
  const verdict = { file: 'lib/a.ts', program: 'p', tests: 't', runs: 1 }
  openJournal(path).write({ ...verdict, id: 'dead', end: 'killed' })
  openJournal(path).write({ ...verdict, id: 'alive', end: 'survived' })
  writeFileSync(path, '{"id":', { flag: 'a' })
  const journal = openJournal(path)
  t.hasStrict(journal.find('dead', 'p', 'other tests'), { end: 'killed' })
  t.equal(journal.find('dead', 'other program', 't'), undefined)
  t.hasStrict(journal.find('alive', 'p', 't'), { end: 'survived' })
  t.equal(journal.find('alive', 'p', 'other tests'), undefined)
  t.strictSame(journal.survivors(), ['alive'])
})

t.test('The same seed gives the same sample, and another one another', async t => {
  const items = Array.from({ length: 100 }, (_, index) => ({ id: String(index) }))
  t.strictSame(sample(items, 1, 10), sample(items, 1, 10))
  t.strictNotSame(sample(items, 1, 10), sample(items, 2, 10))
  t.strictSame(sample(items, 1, 10), sample(items, 1, 20).slice(0, 10), 'a larger one begins with the smaller one')
  t.strictSame(new Set(sample(items, 1, 1000)), new Set(items))
  const [, second, ...rest] = sample(items, 1, 12)
  t.strictSame(sample(items.filter(item => item !== second), 1, 11).slice(1), rest, 'without one item the others stay')
})

t.test('The figures leave out listed survivors, and a folder below its target fails', async t => {
  const source = program('if (a) b = c')
  const [first, second, third] = findMutants(source) as [Mutant, Mutant, Mutant]
  const verdict = (id: string, end: Verdict['end']): Verdict => ({
    id,
    file: source.file,
    program: '',
    tests: '',
    end,
    runs: 1
  })
  const judged = [{ mutant: first, verdict: verdict('1', 'killed') }, {
    mutant: second,
    verdict: verdict('2', 'timeout')
  }, { mutant: third, verdict: verdict('3', 'survived') }]
  const { text, isEnough } = report(judged, [])
  t.match(text, containing('| lib/guard | 3 | 2 | 0 | 1 | 66.7 % |'))
  t.match(text, containing('lib/guard/a.ts:1'))
  t.equal(isEnough, false)
  const listed = report(judged, [{
    file: source.file,
    within: '',
    line: 'if (a) b = c',
    original: 'b = c',
    replacement: ';',
    reason: 'b is never read',
    tried: 'all values of b'
  }])
  t.match(listed.text, containing('| lib/guard | 3 | 2 | 1 | 0 | 100.0 % |'))
  t.notMatch(listed.text, containing('lib/guard/a.ts:1'))
  t.equal(listed.isEnough, true)
})

t.test('Each listed survivor has a reason, says what was tried, and fits a current mutant', async t => {
  const listed = readListed()
  const byFile = new Map(
    [...new Set(listed.map(({ file }) => file))].map(file => [file, findMutants(readProgram(file))])
  )
  for (const entry of listed) {
    for (const text of [entry.reason, entry.tried]) t.match(text, /^[A-Z\d].*\.$/s, entry.line)
    t.ok(
      byFile.get(entry.file)!.some(mutant => isListed(mutant, [entry])),
      `${entry.file}: ${entry.line}: ${entry.original} -> ${entry.replacement}`
    )
  }
})
