import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { cpSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { containing } from '../helpers/containing.ts'
import { freePort } from '../helpers/free-port.ts'
import { decodeJwt, decodeProtectedHeader, SignJWT } from 'jose'
import t from 'tap'
import { readSettings } from '../../holdfast.ts'
import { collectSettings } from '../../lib/settings/sources.ts'
import { runLine, startLine } from '../helpers/command-line.ts'
import { readBlocks, readSection, root } from '../helpers/documents.ts'
import { buildService, startInstance } from '../helpers/instance.ts'
import { startIssuer } from '../helpers/issuer.ts'

/**
 * docs/guide/gate.md as a reader follows it: the part from nothing to a guarded application as it is printed, but for ports, which are free
 * ones here; and the examples that verify a statement.
 */

t.setTimeout(600_000)
const PAGE = 'docs/guide/gate.md'
const blocks = [PAGE, 'docs/reference/gate.md'].flatMap(readBlocks)
/** The first Python that has these modules. The one of the system has those of its packages. */
function pythonWith (...modules: string[]): string | undefined {
  return ['python3', '/usr/bin/python3'].find(name => spawnSync(name, ['-c', `import ${['sys', ...modules].join(', ')}`]).status === 0)
}

t.test('The page leads from nothing to a guarded application in Python.', { skip: pythonWith() === undefined && 'python3 is not installed' }, async t => {
  const clone = mkdtempSync(join(tmpdir(), 'holdfast-guarded-'))
  t.teardown(() => rmSync(clone, { recursive: true, force: true }))
  const files = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: root, encoding: 'utf8' }).trim().split('\n')
  for (const file of files) cpSync(join(root, file), join(clone, file))
  symlinkSync(join(root, 'node_modules'), join(clone, 'node_modules'), 'dir')
  t.equal((await runLine(clone, 'npm run build')).code, 0, 'the install has built it')

  const part = readSection(PAGE, 'Three minutes to a guarded application')
  const steps = blocks.filter(({ text }) => part.includes(text))
  const [application, startApplication, startProvider, startGate, calls, configuration, explain, explained, startAgain, callsAgain] = steps.map(({ text }) => text)
  t.equal(steps.length, 10)
  const [applicationPort, gatePort] = [String(await freePort()), String(await freePort())]
  let issuer = 'http://localhost:8001'
  const here = (text = ''): string => text.replaceAll('3000', applicationPort).replaceAll('8100', gatePort).replaceAll('http://localhost:8001', issuer).trim()

  writeFileSync(join(clone, /^# (\S+):/.exec(application!)![1]!), here(application))
  startLine(t, clone, here(startApplication))
  t.equal(startProvider, 'npm ci && npm run dev\n')
  const dev = startLine(t, clone, 'npm run dev', { PORT: String(await freePort()) })
  const [, provider, audience] = await dev.says(/Provider +(http:\S+) +\(audience (\S+)\)/)
  issuer = provider!
  t.match(startGate, containing(`IDP_AUDIENCE=${audience} `), 'the page names the audience that is printed')

  async function call (lines: string): Promise<void> {
    for (const line of lines.trim().split('\n')) {
      const [command = '', remark = ''] = line.split(/\s+# /, 2)
      const [, status, reason] = /^(\d{3}): (\w+)/.exec(remark) ?? []
      const { code, output } = await runLine(clone, command)
      if (status === undefined) t.match({ code, output }, { code: 0, output: / 200 OK/ }, line)
      else t.match({ code, output }, { code: 1, output: new RegExp(`\n  ${status} [^]*Why: ${reason}\n`) }, line)
      if (status === undefined && !command.includes('--no-token')) t.match(output, /Hello \S+, this is \/orders\/7/, 'the application knows who calls')
    }
  }

  let gate = startLine(t, clone, here(startGate))
  await gate.says(/Server listening/)
  await call(here(calls))
  await gate.stop()

  writeFileSync(join(clone, 'config.yaml'), here(configuration))
  const { code, output } = await runLine(clone, here(explain))
  t.equal(code, 0)
  t.ok(output.replace(/^\n?>.*\n/gm, '').trim().endsWith(here(explained)), output)
  gate = startLine(t, clone, here(startAgain))
  await gate.says(/Server listening/)
  await call(here(callsAgain))
  await gate.stop()
  t.notMatch(gate.output(), /eyJ/, 'no token is in a log')
})

interface Case {
  readonly title: string
  readonly statement: string
  readonly isGood: boolean
  readonly issuer: string
  readonly audience: string
  readonly method: string
  readonly path: string
}

t.test('The examples for Node and Python accept a statement of the gate, and refuse each false one.', async t => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const folder = buildService(t)
  writeFileSync(join(folder, 'statement.pem'), privateKey.export({ format: 'pem', type: 'pkcs8' }))
  let statement = ''
  const upstream = createServer((request, answer) => {
    statement = String(request.headers['x-auth-statement'])
    answer.end()
  })
  await new Promise<void>(resolve => upstream.listen(0, '127.0.0.1', resolve))
  t.teardown(() => { upstream.close() })
  const issuer = 'https://api.example'
  const audience = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`
  const file = join(folder, 'gate.yaml')
  writeFileSync(file, `server:\n  publicUrl: ${issuer}\ngate:\n  upstream: ${audience}\n  statementKey: ${join(folder, 'statement.pem')}\n  rules:\n    - path: /*\n`)
  const provider = await startIssuer(t)
  const gate = await startInstance(t, folder, provider, { CONFIG_FILE: file })
  await fetch(`${gate.url}/orders/7?page=2`, { headers: { authorization: `Bearer ${provider.token()}` } })
  const jwksUrl = `${gate.url}/.well-known/holdfast-jwks.json`
  const claims = decodeJwt(statement)
  t.hasStrict(claims, { iss: issuer, aud: audience, method: 'GET', path: '/orders/7' })

  const { kid } = decodeProtectedHeader(statement)
  const signed = (change: object, key = privateKey, alg = 'ES256'): Promise<string> => new SignJWT({ ...claims, ...change }).setProtectedHeader({ alg, kid: kid! }).sign(key)
  const good = { statement, isGood: true, issuer, audience, method: 'GET', path: '/orders/7' }
  const seconds = Math.floor(Date.now() / 1000)
  const encoded = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const cases: Case[] = [
    { ...good, title: 'as the gate sent it' },
    { ...good, title: 'signed here by the same key', statement: await signed({}) },
    { ...good, isGood: false, title: 'by another key', statement: await signed({}, generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey) },
    { ...good, isGood: false, title: 'without a signature', statement: `${encoded({ alg: 'none', kid })}.${encoded(claims)}.` },
    { ...good, isGood: false, title: 'of another issuer', statement: await signed({ iss: 'https://evil.example' }) },
    { ...good, isGood: false, title: 'without an issuer', statement: await signed({ iss: undefined }) },
    { ...good, isGood: false, title: 'for another audience', statement: await signed({ aud: 'http://127.0.0.1:1' }) },
    { ...good, isGood: false, title: 'without an audience', statement: await signed({ aud: undefined }) },
    { ...good, isGood: false, title: 'expired', statement: await signed({ exp: seconds - 10 }) },
    { ...good, isGood: false, title: 'that never expires', statement: await signed({ exp: undefined }) },
    { ...good, isGood: false, title: 'about another method', method: 'DELETE' },
    { ...good, isGood: false, title: 'about another path', path: '/orders/8' },
    { ...good, isGood: false, title: 'that is empty, as under allow: anyone', statement: '' }
  ]
  const exampleOf = (language: string): string => blocks.filter(block => block.language === language && block.text.includes('statement')).map(({ text }) => text).join()

  await t.test('Node', async t => {
    t.equal(exampleOf('js').trim().split('\n').length, 3, 'three lines')
    const module = `import { createRemoteJWKSet, jwtVerify } from '${import.meta.resolve('jose')}'\nexport async function verify ({ statement, issuer, audience, method, path }, jwksUrl) {\n${exampleOf('js')}\nreturn payload }\n`
    const { verify } = await import(pathToFileURL(join(t.testdir({ 'verify.mjs': module }), 'verify.mjs')).href) as { verify: (one: Case, jwksUrl: string) => Promise<{ sub: string }> }
    for (const one of cases) {
      if (one.isGood) t.hasStrict(await verify(one, jwksUrl), { sub: 'user-1' }, one.title)
      else await t.rejects(verify(one, jwksUrl), one.title)
    }
  })

  const python = pythonWith('jwt', 'cryptography')
  await t.test('Python', { skip: python === undefined && 'python3 with jwt and cryptography is not installed' }, async t => {
    t.equal(exampleOf('python').trim().split('\n').length, 3, 'three lines')
    const indented = exampleOf('python').trim().replace(/^/gm, '    ')
    const script = `import json, sys, urllib.request\nimport jwt\nfrom jwt import PyJWKClient\n\ndef verify(jwks_url, statement, issuer, audience, method, path):\n${indented}\n    return claims\n\ngiven = json.load(sys.stdin)\nresults = []\nfor one in given["cases"]:\n    try:\n        results.append(verify(given["jwksUrl"], *[one[name] for name in ("statement", "issuer", "audience", "method", "path")])["sub"])\n    except jwt.PyJWTError as error:\n        results.append(None)\nprint(json.dumps(results))\n`
    const child = spawn(python!, ['-c', script], { stdio: ['pipe', 'pipe', 'inherit'] })
    let output = ''
    child.stdout.on('data', chunk => { output += chunk })
    child.stdin.end(JSON.stringify({ jwksUrl, cases }))
    t.equal(await new Promise(resolve => child.on('close', resolve)), 0)
    const results = JSON.parse(output) as Array<string | null>
    cases.forEach(({ title, isGood }, index) => t.equal(results[index], isGood ? 'user-1' : null, title))
  })
})

t.test('The page quotes what the service says about mistakes.', async t => {
  const rules = "    - path: /orders/:id\n      methods: [GET]\n    - path: /a\n      scpe: a\n    - { path: '/orders/:number', methods: [GET, PUT] }\n"
  const head = '# config.yaml\nidp:\n  domain: tenant.example\n  audience: https://api.example\ngate:\n  upstream: http://127.0.0.1:3000\n  rules:\n'
  const { values, ...faults } = collectSettings({ environment: {}, readFile: path => path === 'config.yaml' ? head + rules : undefined })
  const { message } = await readSettings(values, faults).then(() => { throw new Error('it is accepted') }, (error: Error) => error)
  t.ok(blocks.some(({ text }) => text === `${message}\n`), message)
})
