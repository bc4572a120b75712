import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { exactly } from '../helpers/containing.ts'
import { processSurroundings } from '../../server/surroundings.ts'

const { environment, readFile } = processSurroundings

t.test('A file is read up to its limit, whatever size it states', async t => {
  const folder = t.testdir({ empty: '', some: 'abc' })
  t.equal(String(await readFile(join(folder, 'empty'), 3)), '')
  t.equal(String(await readFile(join(folder, 'some'), 3)), 'abc')
  await t.rejects(readFile(join(folder, 'some'), 2), { code: exactly('TOO_LARGE') })
  await t.rejects(readFile(folder, 3), { code: exactly('NOT_A_FILE') })
  const unsized = '/proc/self/maps'
  if (existsSync(unsized)) await t.rejects(readFile(unsized, 100), { code: exactly('TOO_LARGE') })
})

t.test('A variable is set only if the environment has it', async t => {
  t.type(environment('PATH'), 'string')
  for (const name of ['HOLDFAST_NOT_SET', 'constructor', '__proto__', 'toString']) t.equal(environment(name), undefined)
})
