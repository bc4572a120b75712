import { execFileSync } from 'node:child_process'
import { appendFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { freePort } from '../helpers/free-port.ts'
import t, { type Test } from 'tap'
import { runLine, startLine, type Outcome } from '../helpers/command-line.ts'
import { readBlocks, root, type Block } from '../helpers/documents.ts'

/**
 * The first hour of a newcomer: a clone, the commands of the guides as they are printed and in their order, their route
 * and its test. nginx before it is in nginx.test.ts. A provider of one's own is in test/docs/snippets.test.ts.
 */

/**
 * What `npm test` is while the guides are walked: the tests that look at the routes of a clone. `.ci/run` has the whole
 * suite on one Node without the sample routes.
 */
const OWN = 'npm test -- test/own/*.test.ts test/routes/endpoints.test.ts'

const npm = { npm_config_prefer_offline: 'true', npm_config_audit: 'false', npm_config_fund: 'false' }
const git = {
  GIT_AUTHOR_NAME: 'A',
  GIT_AUTHOR_EMAIL: 'a@example.com',
  GIT_COMMITTER_NAME: 'A',
  GIT_COMMITTER_EMAIL: 'a@example.com',
  GIT_EDITOR: 'true'
}
const directory = mkdtempSync(join(tmpdir(), 'holdfast-own-'))
const upstream = join(directory, 'upstream')
const clone = join(directory, 'clone')
t.teardown(() => rmSync(directory, { recursive: true, force: true }))
// Installing takes its time.
t.setTimeout(900_000)

const shell = (line: string, cwd = clone, env: Record<string, string> = {}) =>
  runLine(cwd, line, { ...npm, ...git, ...env })

/** Writes the files of a page's part, and runs its commands, each as printed, but for those that are left out. */
async function walk (
  t: Test,
  page: string,
  isIncluded: (block: Block) => boolean,
  expected: (t: Test, line: string, outcome: Outcome) => void,
  leftOut: readonly string[] = []
) {
  for (const block of readBlocks(page).filter(isIncluded)) {
    const name = /^\/\/ (\S+\.ts): /.exec(block.text)?.[1]
    if (block.language === 'ts') {
      mkdirSync(dirname(join(clone, name!)), { recursive: true })
      writeFileSync(join(clone, name!), block.text)
      continue
    }
    for (const line of block.text.trim().split('\n').filter(line => !leftOut.includes(line))) {
      const [command = '', remark = ''] = line.split(/\s+# /, 2)
      const [, status, reason] = /^(\d{3}): (\w+)/.exec(remark) ?? []
      await t.test(`${block.place}: ${line}`, async t => {
        const outcome = await settled(command === 'npm test' ? OWN : command)
        if (status !== undefined) t.match(outcome, { code: 1, output: new RegExp(`${status}[^]*Refused: ${reason},`) })
        else expected(t, command, outcome)
      })
    }
  }
}

/** A call that comes before the API has started anew is made again, as a person does it. */
async function settled (command: string) {
  for (let left = 30; ; left--) {
    const outcome = await shell(command)
    const isEarly = command.startsWith('npm run call') && /ECONNREFUSED|^ {2}404 /m.test(outcome.output)
    if (!isEarly || left === 0) return outcome
    await delay(500)
  }
}

const PRICES =
  "import type { FastifyPluginAsync } from 'fastify'\n\nconst routes: FastifyPluginAsync = async (app) => { " +
  "app.get('/prices', () => ({})) }\nexport default routes\n"
const PUBLIC_PRICES = readBlocks('docs/guide/your-own.md').find(({ language }) => language === 'json')!.text

const passes = (t: Test, _line: string, { code, output }: Outcome) => {
  const failures = output.split('\n').filter(line => /^ *not ok /.test(line))
  t.equal(code, 0, code === 0 ? 'it ends well' : `${failures.join('\n')}\n${output.slice(-4000)}`)
}

t.before(async () => {
  const files = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: root, encoding: 'utf8' }).trim()
    .split('\n')
  for (const file of files) cpSync(join(root, file), join(upstream, file))
  for (const line of ['git init -q -b main', 'git add -A', 'git commit -q -m First']) await shell(line, upstream)
  await shell(`git clone -q ${upstream} ${clone}`, directory)
})

t.test('The guide leads from a clone to a route with a test.', async t => {
  const [first] = readBlocks('docs/guide/start.md')
  t.equal(first!.text, 'npm ci && npm run dev\n')
  t.equal(readBlocks('README.md')[0]!.text, first!.text, 'the README begins the same way')
  // `.ci/run` installs on each Node. A cache would be changed for both.
  await shell(`cp -al ${join(root, 'node_modules')} . || cp -a ${join(root, 'node_modules')} .`)
  passes(t, 'npm ci', await shell('rm -rf node_modules/.cache && npm run prepare'))
  const dev = startLine(t, clone, 'npm run dev', { PORT: String(await freePort()) })
  await dev.says(/Watching the code/)

  const isPart = ({ place, text }: Block) =>
    place !== first!.place && /npm run call -- (?!--url)|^\/\/ (routes\/api|test\/own)\/|npx tap/.test(text) &&
    !/CALL_CLIENT_SECRET/.test(text)
  passes(t, 'README.md', await shell(readBlocks('README.md').find(({ text }) => text.startsWith('npm run call'))!.text))
  await walk(t, 'docs/guide/start.md', isPart, passes)
  await dev.stop()
  // What the two files need, and the plugins, whose decorators they use. `npm run lint` judges the rest.
  writeFileSync(
    join(clone, 'tsconfig.own.json'),
    JSON.stringify({
      extends: './tsconfig.json',
      include: ['*.ts', 'plugins', 'routes', 'schemas', 'server', 'test/own']
    })
  )
  const { code, output } = await shell('npx eslint routes test/own && npx tsc -p tsconfig.own.json')
  rmSync(join(clone, 'tsconfig.own.json'))
  t.equal(code, 0, code === 0 ? 'and it satisfies the linter and the compiler' : output)
})

t.test('Without a guard or a place on the public list, a route fails one test.', async t => {
  const route = join(clone, 'routes/api/prices.ts')
  writeFileSync(route, PRICES)
  const list = join(clone, 'test/own/routes.json')
  const before = readFileSync(list, 'utf8')
  const test = 'npx tap test/routes/endpoints.test.ts'
  const refused = await shell(test)
  t.equal(refused.code, 1)
  t.match(refused.output, /"GET \/api\/prices"/)
  writeFileSync(list, PUBLIC_PRICES)
  passes(t, test, await shell(test))
  rmSync(route)
  t.equal((await shell(test)).code, 1, 'a line for a route that does not exist is found too')
  writeFileSync(list, before)
})

t.test('Sample routes go, and a later version comes in, as the page says.', async t => {
  writeFileSync(join(clone, 'routes/api/prices.ts'), PRICES)
  writeFileSync(join(clone, 'test/own/routes.json'), PUBLIC_PRICES)
  await shell('git add -A && git commit -q -m "My routes"')
  // What happens at Holdfast meanwhile: one of the sample routes that go has changed, and so has something else.
  appendFileSync(join(upstream, 'routes/api/users.ts'), '// A later version.\n')
  appendFileSync(join(upstream, 'lib/guard/message.ts'), '// A later version.\n')
  await shell('git commit -q -a -m Later', upstream)
  await walk(t, 'docs/guide/your-own.md', ({ text }) => text.startsWith('git '), (t, line, outcome) => {
    if (line === 'git merge holdfast/main') {
      t.match(outcome, { code: 1, output: /routes\/api\/users\.ts deleted in HEAD/ })
    } else passes(t, line, outcome)
  }, ['npm ci', 'npm test'])
  // The samples are gone, and two routes are the reader's. Nothing is installed anew, since the later version has the
  // same packages.
  passes(t, 'npm test', await shell(OWN))
  t.match(readFileSync(join(clone, 'lib/guard/message.ts'), 'utf8'), /A later version/)
  t.equal((await shell('git status --porcelain')).output, '')
  t.equal(
    (await shell('git ls-files routes/api')).output.trim().split('\n').join(' '),
    'routes/api/drafts.ts routes/api/prices.ts routes/api/private-scoped.ts routes/api/private.ts routes/api/public.ts'
  )
})

t.test('The sample routes that stay can be left out of an image, which starts what is compiled.', async t => {
  passes(t, 'npm run build', await shell('npm run build'))
  for (const name of ['public', 'private', 'private-scoped']) rmSync(join(clone, `dist/routes/api/${name}.js`))
  const port = String(await freePort())
  await startLine(t, clone, 'npx fastify start -c dist/start-options.js dist/app.js', {
    PORT: port,
    IDP_ISSUER: 'http://127.0.0.1:9/',
    IDP_AUDIENCE: 'https://api.example'
  }).says(/listening at/)
  const statusOf = async (path: string) => (await fetch(`http://localhost:${port}${path}`)).status
  t.strictSame([await statusOf('/api/private'), await statusOf('/api/drafts'), await statusOf('/health/live')], [
    404,
    401,
    200
  ])
})
