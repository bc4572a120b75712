import { spawn, spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import getPort from 'get-port'
import t from 'tap'
import type { Test } from 'tap'
import { startApp } from '../helpers/app.ts'
import { bearerLines, dpopLines } from '../helpers/call.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { nginxProgram } from '../helpers/nginx.ts'
import { startUpstream } from '../helpers/upstream.ts'
import { sendRaw } from '../helpers/wire.ts'

const deploy = join(import.meta.dirname, '..', '..', 'deploy', 'gate')

const isThere = (program: string): boolean => spawnSync(program, ['version']).error === undefined

interface Ports {
  readonly port: number
  readonly gate: number
  readonly application: number
}

/** A file of deploy/gate with other addresses. A text that it does not hold is an error. */
function configuration (file: string, replacements: Readonly<Record<string, string>>): string {
  let text = readFileSync(join(deploy, file), 'utf8')
  for (const [from, to] of Object.entries(replacements)) {
    if (!text.includes(from)) throw new Error(`${file} no longer holds ${from}`)
    text = text.replaceAll(from, to)
  }
  return text
}

const PROXIES: Readonly<Record<string, { program: string | undefined, prepare: (folder: string, ports: Ports) => string[] }>> = {
  nginx: {
    program: nginxProgram,
    prepare (folder, { port, gate, application }) {
      mkdirSync(join(folder, 'logs'))
      const text = configuration('nginx.conf', { 'listen 80': `listen 127.0.0.1:${port}`, '127.0.0.1:8000': `127.0.0.1:${gate}`, '127.0.0.1:3000': `127.0.0.1:${application}` })
      const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(name => `${name}_temp_path temporary-${name};`).join(' ')
      const user = process.getuid?.() === 0 ? 'user root;' : ''
      writeFileSync(join(folder, 'nginx.conf'), `${user} daemon off; pid nginx.pid; worker_processes 1; events {} http { access_log off; ${temporary}\n${text}\n}`)
      return ['-p', folder, '-c', 'nginx.conf', '-e', join(folder, 'logs', 'error.log')]
    }
  },
  caddy: {
    program: isThere('caddy') ? 'caddy' : undefined,
    prepare (folder, { port, gate, application }) {
      const text = configuration('Caddyfile', { 'api.example {': `http://127.0.0.1:${port} {`, '127.0.0.1:8000': `127.0.0.1:${gate}`, '127.0.0.1:3000': `127.0.0.1:${application}` })
      writeFileSync(join(folder, 'Caddyfile'), `{\n\tadmin off\n\tauto_https off\n}\n${text}`)
      return ['run', '--config', join(folder, 'Caddyfile'), '--adapter', 'caddyfile']
    }
  },
  haproxy: {
    program: isThere('haproxy') ? 'haproxy' : undefined,
    prepare (folder, { port, gate, application }) {
      const text = configuration('haproxy.cfg', { '/etc/haproxy/holdfast.lua': join(deploy, 'holdfast.lua'), 'bind :80': `bind 127.0.0.1:${port}`, '127.0.0.1:8000': `127.0.0.1:${gate}`, '127.0.0.1:3000': `127.0.0.1:${application}` })
      writeFileSync(join(folder, 'haproxy.cfg'), text)
      return ['-f', join(folder, 'haproxy.cfg')]
    }
  }
}

async function startProxy (t: Test, name: string, ports: Ports): Promise<void> {
  const { program, prepare } = PROXIES[name]!
  const folder = t.testdir()
  const child = spawn(program!, prepare(folder, ports), { cwd: folder, env: { ...process.env, HOME: folder }, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', chunk => { output += chunk })
  const ended = new Promise(resolve => child.on('exit', resolve))
  // Not SIGKILL: the workers of nginx would outlive it.
  t.teardown(() => { child.kill('SIGTERM'); return ended })
  while (!await isListening(ports.port)) {
    if (child.exitCode !== null) throw new Error(`${name} did not start: ${output}`)
    await new Promise(resolve => setTimeout(resolve, 25))
  }
}

function isListening (port: number): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect(port, '127.0.0.1', () => { socket.destroy(); resolve(true) })
    socket.on('error', () => resolve(false))
  })
}

for (const [name, { program }] of Object.entries(PROXIES)) {
  t.test(`Behind ${name} the guard's answers reach the client, and its words the application.`, { skip: program === undefined && `${name} is not installed` }, async t => {
    const issuer = await startIssuer(t)
    const upstream = await startUpstream(t)
    const rules = [{ path: '/open/*', allow: 'anyone' }, { path: '/orders/:id', scope: 'read:orders' }, { path: '/any/*' }]
    const running = await startApp(t, issuer, { GATE: { rules }, TRUST_PROXY: 'loopback', DPOP_NONCE: 'required', DPOP_NONCE_SECRET: ['x'.repeat(43)], RATE_LIMIT: 6 })
    const port = await getPort()
    await startProxy(t, name, { port, gate: Number(new URL(running.url).port), application: Number(new URL(upstream.origin).port) })
    const url = `http://127.0.0.1:${port}`
    const send = (target: string, lines: readonly string[] = [], method = 'GET') => sendRaw(url, [`${method} ${target} HTTP/1.1`, `Host: 127.0.0.1:${port}`, 'Connection: close', ...lines])

    const client = await createDpopClient()
    const token = issuer.token({ cnf: { jkt: client.jkt }, scope: 'read:orders' })
    const given: { nonce?: string | undefined } = {}
    const proof = (target: string, method = 'GET'): string[] => dpopLines(token, client.proof({ token, url: url + target, method, claims: given }))

    const first = await send('/any/x', proof('/any/x'))
    t.match(first, { status: 401, headers: { 'www-authenticate': /^DPoP error="use_dpop_nonce"/, 'dpop-nonce': /./ } }, 'a nonce is asked for')
    given.nonce = first.headers['dpop-nonce']
    const forged = ['X-Auth-Subject: root', 'X_Auth_Subject: root', 'X-Auth-Client: root', 'X-Forwarded-Uri: /open/x', 'X-Forwarded-Method: PUT', 'X-Original-URL: http://a/open/x']
    const lines = proof('/any/a%2Cb~')
    t.equal((await send('/any/a%2cb%7e?allow=anyone', [...lines, ...forged])).status, 200, 'a proof with the nonce')
    const { headers, target } = upstream.arrived[0]!
    t.equal(target, '/any/a%2cb%7e?allow=anyone', 'the bytes that came go on')
    t.equal(headers['x-auth-subject'], 'user-1')
    t.equal(headers['x-auth-client'] ?? '', '')
    t.same(['authorization', 'dpop', 'x_auth_subject'].filter(name => name in headers), [])
    t.match(await send('/any/a%2cb%7e', lines), { status: 401, headers: { 'www-authenticate': /invalid_dpop_proof/ } }, 'the same proof again')
    t.equal((await send('/any/other', proof('/any/x'))).status, 401, 'the proof of another path')
    t.equal((await send('/any/x', proof('/any/x', 'POST'))).status, 401, 'the proof of another method')
    t.equal((await send('/any/x', [...proof('/any/x'), 'DPoP: another'])).status, 401, 'two proofs')
    t.equal((await send('/any/x', [...proof('/any/x', 'POST'), 'Content-Length: 3', '', 'abc'], 'POST')).status, 200, 'a request with a body')
    t.equal(upstream.arrived.at(-1)!.body.slice(0, 3), 'abc')

    t.equal((await send('/open/x')).status, 200, 'anyone')
    t.match(await send('/any/x'), { status: 401, headers: { 'www-authenticate': /^Bearer, DPoP algs=/ } })
    t.match(await send('/orders/7', bearerLines(issuer.token())), { status: 403, headers: { 'www-authenticate': /insufficient_scope.*read:orders/ } })
    t.equal((await send('/elsewhere', bearerLines(issuer.token()))).status, 403)
    const before = upstream.arrived.length
    for (const path of ['/open/../any/x', '/open/%2e%2e/any/x', '/open/..;/any/x', '/open%2fx', '/open//x', '/open/%00', '/open/%ff']) {
      const { status } = await send(path)
      t.ok(status === 403 || status === 400, `${path}: ${status}`)
    }
    t.equal(upstream.arrived.length, before)

    const limited = bearerLines(issuer.token({ sub: 'busy' }))
    for (let left = 6; left > 0; left--) await send('/any/x', limited)
    t.match(await send('/any/x', limited), { status: 429, headers: { 'retry-after': /\d/ } }, 'too many requests')
    issuer.outage = 500
    t.match(await send('/any/x', bearerLines(issuer.token({}, { kid: 'unknown' }))), { status: /^(?:401|503)$/ })
    await running.app.close()
    const dead = await send('/open/x')
    t.ok(dead.status >= 500, `without the gate nothing passes: ${dead.status}`)
    t.equal(upstream.arrived.filter(({ target }) => target === '/open/x').length, 1)
  })
}
