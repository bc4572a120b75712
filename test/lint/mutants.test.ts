import t from 'tap'
import { findChanges } from '../mutation/operators.ts'

/** The texts that are changed in a statement, whose templates have `$` in place of a value. */
function changed (statement: string, isOfCommand: boolean) {
  const changes = findChanges(statement.replaceAll('$', sign => `${sign}{value}`), isOfCommand)
  return changes.filter(({ operator }) => operator === 'string').map(({ text }) => text)
}

for (const statement of [
  "print('It has no rule.')",
  "print(b ? 'It has no rule.' : `$ is wrong.`)",
  "print('a rule: ' + name)"
]) {
  t.test(`${statement}: what a command prints is left as it is.`, async t => {
    t.strictSame(changed(statement, true), [])
    t.not(changed(statement, false).length, 0)
  })
}

for (const statement of [
  "throw new SetError('It has no ' + 'key.')",
  'throw new Error(`It has no $`)',
  "x = { about: 'what it is for' }"
]) {
  t.test(`${statement}: messages of errors and descriptions are left as they are everywhere.`, async t => {
    t.strictSame([changed(statement, true), changed(statement, false)], [[], []])
  })
}

for (const statement of [
  "throw new SetError('invalid_key', x)",
  "if (text === 'It has no rule.') x()",
  "if (text.includes('of a key')) x()",
  "outcome = 'not checked'",
  'send(`GET $ HTTP/1.1`)',
  'header = `Bearer $`'
]) {
  t.test(`${statement}: what decides is changed, in a command too.`, async t => {
    t.equal(changed(statement, true).length, 1)
  })
}

t.test('A limit of pieces is changed if it decides which are there.', async t => {
  const numbers = (source: string) => findChanges(source, false).map(({ text }) => text)
  t.notOk(numbers("text.split('.', 2)[1]").includes('3'))
  for (const source of ["text.split('.', 2)[2]", "x(text.split('.', 2))"]) t.ok(numbers(source).includes('3'), source)
})
