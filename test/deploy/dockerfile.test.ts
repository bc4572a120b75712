import { readFileSync } from 'node:fs'
import { validate } from 'dockerfile-utils'
import t from 'tap'

const text = readFileSync('Dockerfile', 'utf8')
const scripts = JSON.parse(readFileSync('package.json', 'utf8')).scripts as Record<string, string>
const lineOf = (instruction: string): string => text.split('\n').findLast(line => line.startsWith(`${instruction} `)) ?? ''

t.test('The Dockerfile is sound', async t => {
  t.same(validate(text), [], 'the linter has nothing to say')
  for (const [, tag] of text.matchAll(/^FROM (\S+)/gm)) t.match(tag, /^node:24\.\d+\.\d+-bookworm-slim$/, 'a pinned slim base')
  t.equal(lineOf('USER'), 'USER node')
  t.notMatch(text, /curl|wget/, 'nothing is downloaded and no client is left in the image')
})

t.test('The image starts what npm start starts', async t => {
  const command = JSON.parse(lineOf('CMD').slice(4)) as string[]
  t.equal(command[0], 'node_modules/.bin/fastify', 'fastify itself, so that SIGTERM arrives')
  const words = command.slice(1).join(' ').replace('-a 0.0.0.0 ', '')
  t.equal(`fastify ${words}`, scripts.start)
  t.equal(lineOf('ENTRYPOINT'), 'ENTRYPOINT ["tini", "--"]')
})

t.test('The build context holds what the build copies', async t => {
  const ignored = readFileSync('.dockerignore', 'utf8').split('\n')
  t.equal(ignored[0], '*')
  const copied = [...text.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(([, files]) => files!.split(' '))
  for (const file of copied) t.ok(ignored.includes(`!${file}`), file)
})
