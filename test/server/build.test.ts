import { join } from 'node:path'
import t from 'tap'
import { versionOf } from '../../server/build.ts'
import { listenFailure } from '../../server/listen-failure.ts'

t.test('The version is that of the nearest package.json that has one.', async t => {
  const folder = t.testdir({
    'package.json': '{ "version": "1.2.3" }',
    dist: { 'package.json': '{ "type": "module" }', plugins: {} }
  })
  for (const deeper of ['', 'dist', 'dist/plugins']) t.equal(versionOf(join(folder, deeper)), '1.2.3', deeper)
  t.equal(versionOf('/'), 'unknown', 'without any, the search ends')
})

t.test('A port or address that is not available is reported in one sentence, and no other error is.', async t => {
  const failure = (code: string) =>
    listenFailure(Object.assign(new Error(code), { code, address: '127.0.0.1', port: 8000 }))
  t.equal(
    failure('EADDRINUSE'),
    'Port 8000 of 127.0.0.1 is in use by another program: end it, or set PORT or --port to a port that is free.'
  )
  t.match(failure('EACCES'), /^Port 8000 of 127\.0\.0\.1 may not be opened/)
  t.match(failure('EADDRNOTAVAIL'), /^127\.0\.0\.1 is not an address of this machine/)
  const unknown = Object.assign(new Error('no such name'), { code: 'ENOTFOUND', hostname: 'x.invalid' })
  t.match(listenFailure(unknown), /^x\.invalid is not an address of this machine/)
  t.equal(failure('EMFILE'), undefined)
  t.match(
    listenFailure(Object.assign(new Error('taken'), { code: 'EADDRINUSE', setting: 'gate.grpcPort' })),
    /or set gate\.grpcPort to a port that is free\.$/
  )
})
