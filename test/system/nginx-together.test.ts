import { cpSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startApp } from '../helpers/app.ts'
import { bearerLines } from '../helpers/call.ts'
import { freePort } from '../helpers/free-port.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { nginxProgram, prepareNginx } from '../helpers/nginx.ts'
import { startProgram } from '../helpers/programs.ts'
import { startUpstream } from '../helpers/upstream.ts'
import { sendRaw } from '../helpers/wire.ts'

const deploy = join(import.meta.dirname, '..', '..', 'deploy')

t.test('The files for the service under a prefix and for the gate stand in one nginx.', {
  skip: nginxProgram === undefined && 'nginx is not installed'
}, async t => {
  const issuer = await startIssuer(t)
  const upstream = await startUpstream(t)
  const service = await startApp(t, issuer, { TRUST_PROXY: 'loopback' })
  const gate = await startApp(t, issuer, { TRUST_PROXY: 'loopback', GATE: { rules: [{ path: '/orders' }] } })
  const [folder, port] = [t.testdir(), await freePort()]
  cpSync(join(deploy, 'nginx', 'snippets'), join(folder, 'snippets'), { recursive: true })
  const text = (file: string, url: string) =>
    readFileSync(join(deploy, file), 'utf8')
      .replace(/listen 80\b/, `listen 127.0.0.1:${port}`).replace(
        'server 127.0.0.1:8000;',
        `server ${new URL(url).host};`
      ).replace('server 127.0.0.1:3000;', `server ${new URL(upstream.origin).host};`)
  const args = prepareNginx(folder, text('nginx/prefix.conf', service.url) + text('gate/nginx.conf', gate.url))
  await startProgram(t, nginxProgram!, { args, folder, ports: [port] })
  const statusOf = async (host: string, target: string, lines: readonly string[] = []) =>
    (await sendRaw(`http://127.0.0.1:${port}`, [
      `GET ${target} HTTP/1.1`,
      `Host: ${host}`,
      'Connection: close',
      ...lines
    ])).status
  const token = bearerLines(issuer.token())
  t.equal(await statusOf('www.example.com', '/svc/api/private', token), 200, 'the service')
  t.equal(await statusOf('www.example.com', '/svc/api/private'), 401)
  t.equal(await statusOf('api.example', '/orders', token), 200, 'the gate')
  t.equal(upstream.arrived.at(-1)!.headers['x-auth-subject'], 'user-1')
  t.equal(await statusOf('api.example', '/orders'), 401)
  t.equal(await statusOf('other.example', '/orders', token), 421)
})
