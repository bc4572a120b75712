import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { startProvider } from '../../dev/provider/provider.ts'
import { startApp } from '../helpers/app.ts'
import { readBlocks } from '../helpers/documents.ts'
import type { Issuer } from '../helpers/issuer.ts'

/** docs/guide/clients.md: the job in Node runs as it is printed, before and after. */

const audience = 'https://api.example'
const diffs = readBlocks('docs/guide/clients.md').filter(({ language }) => language === 'diff').map(({ text }) => text)

/** One side of a diff: what has no mark, and what has this one. */
const sideOf = (diff: string, mark: '+' | '-') =>
  diff.split('\n').filter(line => line.startsWith(' ') || line.startsWith(mark)).map(line => line.slice(1)).join('\n')

async function startSite (t: Test, settings: Record<string, string>) {
  const provider = await startProvider({ audience })
  t.teardown(() => provider.close())
  const { url, reasons } = await startApp(t, { url: provider.issuer } as Issuer, {
    IDP_AUDIENCE: audience,
    LOG_LEVEL: 'info',
    ...settings
  })
  const folder = t.testdir()
  const run = async (name: string, code: string) => {
    const file = join(folder, `${name}.mjs`)
    const here = code.replace("'https://tenant.example/'", `'${provider.issuer}'`).replace("'nightly'", `'${provider.clientId}'`)
      .replace('process.env.CLIENT_SECRET', '$&, undefined, { execute: [oauth.allowInsecureRequests] }')
      .replace('https://api.example/api/', `${url}/api/`)
    writeFileSync(file, here)
    const { stdout } = await promisify(execFile)(process.execPath, [file], {
      env: { ...process.env, NODE_OPTIONS: '', CLIENT_SECRET: provider.clientSecret }
    })
    return stdout.trim()
  }
  return { run, reasons }
}

t.test('The job in Node gets in with Bearer, and by its new lines with DPoP and a nonce.', async t => {
  const [job = ''] = diffs
  const open = await startSite(t, {})
  t.equal(await open.run('bearer', sideOf(job, '-')), '200')

  const strict = await startSite(t, { IDP_DPOP_MODE: 'REQUIRED', DPOP_NONCE: 'required' })
  t.equal(await strict.run('dpop', sideOf(job, '+')), '200')
  t.strictSame(strict.reasons(), ['nonce_missing'])
  t.equal(await strict.run('old', sideOf(job, '-')), '401', 'without the new lines it does not')
})
