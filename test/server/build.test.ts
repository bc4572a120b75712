import t from 'tap'
import { readBuild } from '../../server/build.ts'
import { listenFailure } from '../../server/listen-failure.ts'

const reader = (files: Record<string, string>) => (path: string) => files[path]

t.test('The version is that of the nearest package.json that has one.', async t => {
  const readFile = reader({
    '/app/package.json': '{ "version": "1.2.3" }',
    '/app/dist/package.json': '{ "type": "module" }',
    '/package.json': '{ "version": "9.9.9" }'
  })
  for (const folder of ['/app', '/app/dist', '/app/dist/plugins']) {
    t.strictSame(readBuild(folder, readFile, undefined), { version: '1.2.3', commit: undefined }, folder)
  }
  t.strictSame(
    readBuild('/app/dist', reader({}), undefined),
    { version: 'unknown', commit: undefined },
    'without any, the search ends'
  )
})

t.test('The commit is a plain word, or none.', async t => {
  const commitOf = (text: string | undefined) => readBuild('/', reader({}), text).commit
  for (const commit of ['4f2a1c9', 'a'.repeat(64), 'v0.1.0-3-g4f2a1c9-dirty']) t.equal(commitOf(commit), commit)
  for (const text of [undefined, '', 'a b', 'a'.repeat(65), '4f2a1c9\n', '$(git rev-parse HEAD)']) {
    t.equal(commitOf(text), undefined, String(text))
  }
})

t.test('A port or address that is not available is reported in one sentence, and no other error is.', async t => {
  const failure = (code: string) =>
    listenFailure(Object.assign(new Error(code), { code, address: '127.0.0.1', port: 8000 }))
  t.equal(
    failure('EADDRINUSE'),
    'Port 8000 of 127.0.0.1 is in use by another program: end it, or set PORT to a port that is free.'
  )
  t.match(failure('EACCES'), /^Port 8000 of 127\.0\.0\.1 may not be opened/)
  t.match(failure('EADDRNOTAVAIL'), /^127\.0\.0\.1 is not an address of this machine/)
  t.equal(failure('EMFILE'), undefined)
  t.match(
    listenFailure(Object.assign(new Error('taken'), { code: 'EADDRINUSE', setting: 'gate.grpcPort' })),
    /or set gate\.grpcPort to a port that is free\.$/
  )
})
