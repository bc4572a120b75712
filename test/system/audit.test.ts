import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Pool } from 'undici'
import { root } from '../helpers/documents.ts'
import { buildService, spawnInstance, startInstance } from '../helpers/instance.ts'
import { AUDIENCE, startIssuer } from '../helpers/issuer.ts'

const DECISIONS = Number(process.env['DECISIONS'] ?? 30_000)

interface Line {
  event: string
  id: string
  decision: string
}

/** The lines of all files of a folder. Each is whole: JSON that cannot be read throws. */
const linesIn = (folder: string) =>
  readdirSync(folder).flatMap(name =>
    readFileSync(join(folder, name), 'utf8').split('\n').slice(0, -1).map(line => JSON.parse(line) as Line)
  )

const service = buildService(t)

t.test(
  'Audit: each decision is a line, none lost or cut, while the file is rotated under load, and ' +
    'SIGTERM comes in the middle of more',
  async t => {
    const issuer = await startIssuer(t)
    const folder = t.testdir({})
    const path = join(folder, 'audit.log')
    const instance = await startInstance(t, service, issuer, { AUDIT: path })
    await instance.untilReady()
    const pool = new Pool(instance.url, { connections: 32 })
    t.teardown(() => pool.destroy())
    const [good, poor] = [issuer.token({ scope: 'read:messages' }), issuer.token()].map(token => ({
      authorization: `Bearer ${token}`
    }))
    const statuses: Record<number, number> = {}
    const ask = async (index: number) => {
      const { statusCode, body } = await pool.request({
        method: 'GET',
        path: '/api/private-scoped',
        headers: index % 2 === 0 ? good! : poor!
      })
      statuses[statusCode] = (statuses[statusCode] ?? 0) + 1
      await body.dump()
    }
    let rotations = 0
    const rotate = () => {
      // It may not have been opened anew yet.
      if (!existsSync(path)) return
      renameSync(path, `${path}.${++rotations}`)
      // Some programs say so, others do not.
      if (rotations % 2 === 0) instance.signal('SIGHUP')
    }
    let sent = 0
    const work = async () => {
      while (sent < DECISIONS) {
        if (sent % (DECISIONS / 10) === 0) rotate()
        await ask(sent++)
      }
    }
    await Promise.all(Array.from({ length: 32 }, work))
    t.strictSame(statuses, { 200: DECISIONS / 2, 403: DECISIONS / 2 })
    const lines = linesIn(folder)
    t.strictSame([
      lines.length,
      new Set(lines.map(({ id }) => id)).size,
      lines.filter(({ decision }) => decision === 'admitted').length
    ], [DECISIONS, DECISIONS, DECISIONS / 2])
    t.ok(rotations > 2 && readdirSync(folder).length > 2, `${rotations} rotations`)

    let asked = 0
    let isOver = false
    const more = async () => {
      while (!isOver) {
        asked++
        await ask(0).catch(() => {
          isOver = true
        })
      }
    }
    const working = Promise.all(Array.from({ length: 32 }, more))
    setTimeout(() => instance.terminate(), 300)
    t.equal(await instance.ended, 0)
    isOver = true
    await working
    const answered = statuses[200]! + statuses[403]!
    const all = linesIn(folder).length
    t.ok(
      all >= answered && all <= DECISIONS + asked,
      `${answered} answers, ${all} lines, ${DECISIONS + asked} requests`
    )
  }
)

t.test('Audit: 20 processes append to one file, and no line mixes with another', async t => {
  const folder = t.testdir({})
  const path = join(folder, 'audit.log')
  const program = `
    import { openAuditFile } from ${JSON.stringify(join(root, 'plugins/audit/audit-file.ts'))}
    const file = await openAuditFile(${JSON.stringify(path)}, { every: () => () => {}, onFault: code => { throw new Error(code) }, onRecovered () {} })
    for (let n = 0; n < 1000; n++) {
      file.write({ id: process.pid + '-' + n, text: 'x'.repeat(n * 7 % 6000) })
      if (n % 50 === 0) await new Promise(setImmediate)
    }
    await file.close()
  `
  const processes = Array.from(
    { length: 20 },
    () =>
      spawn(process.execPath, ['--import', join(root, 'cli/strip-types.js'), '--input-type=module', '-e', program], {
        cwd: root,
        stdio: 'inherit'
      })
  )
  t.strictSame(await Promise.all(processes.map(async child => (await once(child, 'exit'))[0])), Array(20).fill(0))
  const lines = linesIn(folder)
  t.strictSame([lines.length, new Set(lines.map(({ id }) => id)).size], [20_000, 20_000])
})

t.test('Audit: a path without rights stops the start with one sentence', async t => {
  const folder = t.testdir({ 'audit.log': {} })
  writeFileSync(join(folder, 'other'), '')
  for (
    const [path, code] of [[join(folder, 'audit.log'), 'EISDIR'], [join(folder, 'other', 'audit.log'), 'ENOTDIR'], [
      '/proc/audit.log',
      'ENOENT'
    ]] as const
  ) {
    const { output, ended } = spawnInstance(t, service, {
      IDP_ISSUER: 'http://127.0.0.1:1/',
      IDP_AUDIENCE: AUDIENCE,
      PORT: '0',
      LOG_LEVEL: 'error',
      AUDIT: path
    })
    t.equal(await ended, 1)
    t.equal(
      output(),
      `The settings are not usable:\n  - AUDIT (audit.to) is ${JSON.stringify(path)}, which cannot be written ` +
        `(${code}); allowed: off, log, or the path of a file\n`
    )
  }
})
