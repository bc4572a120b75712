import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startLine } from '../helpers/command-line.ts'
import { readBlocks } from '../helpers/documents.ts'
import { freePort } from '../helpers/free-port.ts'
import { AUDIENCE, startIssuer } from '../helpers/issuer.ts'
import { copyRepository, expectSuccess, pack } from '../helpers/package-apps.ts'
import { temporaryFolder } from '../helpers/temporary-folder.ts'

/** The projects of `npm create holdfast`, by the lines of the page: written, installed, tested, started and called. */

t.setTimeout(900_000)
const folder = temporaryFolder(t, 'starter')
const NPM = { npm_config_prefer_offline: 'true', npm_config_audit: 'false', npm_config_fund: 'false' }

const clone = await copyRepository(folder)
const { version } = JSON.parse(readFileSync(join(clone, 'package.json'), 'utf8')) as { version: string }
/** How the page says it before the packages are on npm, and then. */
const PACKED = `npx -y -p ./create-holdfast-${version}.tgz create-holdfast ../my-api --packed .`
const PUBLISHED = 'npm create holdfast@latest my-api'
const lines = readBlocks('docs/guide/your-own.md')[0]!.text.trim().split('\n').map(line => line.split(/\s+# /)[0]!)
const creates = lines.find(line => line === PACKED || line === PUBLISHED)
await pack(() => clone, clone)
t.ok(creates, 'the page begins with it')

const KINDS = {
  'my-api': { option: '', build: 'npm run build' },
  'my-js': { option: ' --js', build: '' },
  'my-gate': { option: ' --gate', build: '' }
} as const

for (const [name, { option, build }] of Object.entries(KINDS)) {
  t.test(`npm create holdfast ${name}${option}: its test passes at once, and the guarded route asks for a token.`, async t => {
    await expectSuccess(clone, 'sh', ['-c', PACKED.replace('my-api', name) + option], NPM)
    const cwd = join(folder, name)
    for (const line of lines.slice(lines.indexOf(creates!) + 1).filter(line => !line.startsWith('cd '))) {
      const output = await expectSuccess(cwd, 'sh', ['-c', line], NPM)
      if (line === 'npm test') t.match(output, /^(?:# |ℹ )pass 1$/m)
    }
    const issuer = await startIssuer(t)
    const service = createServer((request, response) => response.end(JSON.stringify({ of: request.headers['x-auth-subject'] })))
      .listen(0, '127.0.0.1')
    t.teardown(() => service.close())
    await new Promise(resolve => service.once('listening', resolve))
    const port = await freePort()
    const example = readFileSync(join(cwd, '.env.example'), 'utf8')
    writeFileSync(
      join(cwd, '.env'),
      example.replace(/^IDP_DOMAIN=.*$/m, `IDP_ISSUER=${issuer.url}`).replace(/^IDP_AUDIENCE=.*$/m, `IDP_AUDIENCE=${AUDIENCE}`)
        .replace(/^GATE_UPSTREAM=.*$/m, `GATE_UPSTREAM=http://127.0.0.1:${(service.address() as AddressInfo).port}`)
        .replace(/^#PORT=.*$/m, `PORT=${port}`)
    )
    if (build !== '') await expectSuccess(cwd, 'sh', ['-c', build])
    await startLine(t, cwd, 'exec npm start').says(/listening at/)
    const ask = async (path: string, token?: string) => {
      const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` }
      const answer = await fetch(`http://localhost:${port}${path}`, { headers })
      return { status: answer.status, challenge: answer.headers.get('www-authenticate') ?? '', text: await answer.text() }
    }
    const path = option === ' --gate' ? '/orders/7' : '/orders'
    const refused = await ask(path)
    t.equal(refused.status, 401)
    t.match(refused.challenge, /^Bearer/)
    t.hasStrict(await ask(path, issuer.token({ scope: 'read:orders' })), { status: 200, text: '{"of":"user-1"}' })
    t.equal((await ask(path, issuer.token({ scope: 'read:others' }))).status, 403)
    t.equal((await ask(path, issuer.token({ scope: 'read:orders', aud: 'https://other.example' }))).status, 401)
    t.equal((await ask(option === ' --gate' ? '/status' : '/health')).status, 200)
    if (option === ' --gate') {
      t.match(await expectSuccess(cwd, 'sh', ['-c', 'npm start -- --explain GET /orders/7']), /read:orders/)
    }
  })
}
