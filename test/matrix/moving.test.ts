import { cpSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parse, stringify } from 'yaml'
import { startApp } from '../helpers/app.ts'
import { startLine } from '../helpers/command-line.ts'
import { readSection, readTable, root, textOf } from '../helpers/documents.ts'
import { freePort } from '../helpers/free-port.ts'
import { AUDIENCE, startIssuer, type Issuer } from '../helpers/issuer.ts'
import { drawKinds, KINDS, randomFrom, REQUESTS, send } from '../helpers/moving.ts'
import { startNginx } from '../helpers/nginx.ts'
import { install, packHoldfast } from '../helpers/package-apps.ts'
import { programOf, startProgram } from '../helpers/programs.ts'
import { startUpstream } from '../helpers/upstream.ts'

/**
 * The set-ups of examples/migration, old and new side by side on the same 200 requests. Each difference stands in the
 * table of its README, and each row of that table is a difference. No distribution that CI has carries oauth2-proxy or
 * Oathkeeper: `npm run test:moving` runs them too.
 */

t.setTimeout(900_000)

const PAGE = 'examples/migration/README.md'
const SEED = 59

const { folder, tarball } = await packHoldfast(t)
const cwd = join(folder, 'migration')
cpSync(join(root, 'examples/migration'), cwd, { recursive: true })
await install(cwd, tarball)

/** Starts one side of a set-up. Returns the URL that gets the requests. */
type Start = (t: Test, issuer: Issuer, side: string, library: string) => Promise<string>

const startLibrary: Start = async (t, issuer, side, library) => {
  const port = String(await freePort())
  startLine(t, cwd, `exec node ${library}/${side}.js`, { PORT: port, ISSUER: issuer.url, AUDIENCE })
  return `http://127.0.0.1:${port}/orders`
}

/** A file of the set-up, for the provider of the test. */
const read = (issuer: Issuer, file: string) =>
  textOf(`examples/migration/${file}`).replaceAll('https://tenant.example/', issuer.url)
    .replaceAll(/(?<!url: '?)https:\/\/api\.example/g, AUDIENCE)

async function startGate (t: Test, issuer: Issuer, gate: object) {
  const upstream = await startUpstream(t)
  return (await startApp(t, issuer, { TRUST_PROXY: 'loopback', GATE: { ...gate, upstream: upstream.origin } })).url
}

const startEnvoy: Start = async (t, issuer, side, library) => {
  const config = parse(read(issuer, `${library}/${side}.yaml`))
  if (side === 'after') return `${await startGate(t, issuer, config.gate)}/orders`
  const upstream = await startUpstream(t)
  const { listeners: [listener], clusters: [tenant, application] } = config.static_resources
  const port = await freePort()
  listener.address.socket_address.port_value = port
  for (const [cluster, origin] of [[tenant, issuer.url], [application, upstream.origin]] as const) {
    const { hostname, port } = new URL(origin)
    const [{ endpoint }] = cluster.load_assignment.endpoints[0].lb_endpoints
    endpoint.address.socket_address = { address: hostname, port_value: Number(port) }
  }
  // The provider of the test has no certificate.
  delete tenant.transport_socket
  const file = join(folder, 'envoy.json')
  writeFileSync(file, JSON.stringify(config))
  const args = ['-c', file, '--disable-hot-restart', '--concurrency', '1', '-l', 'warn']
  await startProgram(t, programOf('envoy')!, { args, folder, ports: [port] })
  return `http://127.0.0.1:${port}/orders`
}

const startOauth2Proxy: Start = async (t, issuer, side, library) => {
  const [upstream, port] = [await startUpstream(t), await freePort()]
  const file = join(folder, `${side}.cfg`)
  writeFileSync(
    file,
    read(issuer, `${library}/${side}.cfg`).replace('127.0.0.1:4180', `127.0.0.1:${port}`)
      .replace('http://127.0.0.1:3000', upstream.origin)
  )
  await startProgram(t, programOf(library)!, { args: ['--config', file], folder, ports: [port] })
  if (side === 'before') return `http://127.0.0.1:${port}/orders`
  const gate = await startGate(t, issuer, parse(read(issuer, `${library}/after.yaml`)).gate)
  const front = await freePort()
  await startNginx(t, {
    file: 'oauth2-proxy.conf',
    port: front,
    replacements: {
      'listen 80;': `listen 127.0.0.1:${front};`,
      'www.example.com:80 www.example.com;': `127.0.0.1:${front} 127.0.0.1:${front};`,
      'server 127.0.0.1:8000;': `server ${new URL(gate).host};`,
      'server 127.0.0.1:4180;': `server 127.0.0.1:${port};`
    }
  })
  return `http://127.0.0.1:${front}/orders`
}

const startOathkeeper: Start = async (t, issuer, side, library) => {
  const { convert } = await import(join(cwd, 'oathkeeper.js'))
  const [upstream, port] = [await startUpstream(t), await freePort()]
  const text = read(issuer, 'oathkeeper.rules.yaml').replaceAll('https://api.example', `http://127.0.0.1:${port}`)
    .replaceAll('http://127.0.0.1:3000', upstream.origin)
  const rules = parse(text, { merge: true })
  if (side === 'after') return `${await startGate(t, issuer, convert(rules).config.gate)}/orders/7`
  const config = parse(read(issuer, `${library}/before.yaml`))
  Object.assign(config.serve.proxy, { port })
  for (const own of ['api', 'prometheus']) Object.assign(config.serve[own], { port: await freePort() })
  mkdirSync(join(folder, library))
  writeFileSync(join(folder, 'oathkeeper.rules.yaml'), text)
  writeFileSync(join(folder, library, 'before.yaml'), stringify(config))
  const args = ['serve', '--config', 'before.yaml']
  await startProgram(t, programOf(library)!, { args, folder: join(folder, library), ports: [port] })
  return `http://127.0.0.1:${port}/orders/7`
}

/** In the order of the columns of the table. */
const SET_UPS: Record<string, { start: Start, program?: string }> = {
  'fastify-jwt-jwks': { start: startLibrary },
  'fastify-auth0-verify': { start: startLibrary },
  'express-oauth2-jwt-bearer': { start: startLibrary },
  'passport-jwt': { start: startLibrary },
  'envoy-jwt-authn': { start: startEnvoy, program: 'envoy' },
  'oauth2-proxy': { start: startOauth2Proxy, program: 'oauth2-proxy' },
  oathkeeper: { start: startOathkeeper, program: 'oathkeeper' }
}
const names = Object.keys(SET_UPS)
const installed = names.filter(name => {
  const { program } = SET_UPS[name]!
  return program === undefined || programOf(program) !== undefined
})

t.test('Old and new answer 200 requests alike, but for the rows of the table.', {
  skip: !installed.includes('envoy-jwt-authn') && 'envoy is not installed'
}, async t => {
  const issuer = await startIssuer(t)
  const start = async (library: string, side: string) => {
    const url = await SET_UPS[library]!.start(t, issuer, side, library)
    // The first token has the keys of the provider fetched.
    const first = KINDS['a good token']!(issuer, { scope: 'read:orders' })
    for (let left = 200; ; left--) {
      const answer = await send(url, first).catch((error: Error) => error)
      if (!(answer instanceof Error) && answer[0] === 200) return url
      if (left === 0) throw new Error(`${library}/${side} answers no good token: ${answer}`)
      await new Promise(resolve => setTimeout(resolve, 100))
    }
  }
  const random = randomFrom(SEED)
  const kinds = drawKinds(random)
  t.equal(kinds.length, REQUESTS)
  const differences = new Map<string, Record<string, string>>()
  const counts: Record<string, number> = {}
  for (const library of installed) {
    const [before, after] = [await start(library, 'before'), await start(library, 'after')]
    for (const kind of kinds) {
      const claims = { scope: 'read:orders', sub: `user-${Math.floor(random() * 1000)}` }
      const sent = KINDS[kind]!(issuer, claims)
      const [[was, body], [is, newBody]] = [await send(before, sent), await send(after, sent)]
      counts[is] = (counts[is] ?? 0) + 1
      if (was === is) {
        t.equal(newBody, body, `${library}: ${kind}`)
        continue
      }
      const row = differences.get(kind) ?? differences.set(kind, {}).get(kind)!
      const seen = row[library]
      if (seen !== undefined) t.equal(`${was}, ${is}`, seen, `${library}: ${kind}, each time`)
      row[library] = `${was}, ${is}`
    }
  }
  t.ok(counts[200]! > 100 && counts[401]! > 100, `many pass and many do not: ${JSON.stringify(counts)}`)

  const rowOf = (kind: string, cells: readonly string[]) =>
    [kind, ...installed.map(library => cells[names.indexOf(library)] ?? '')]
  const found = [...differences].map(([kind, row]) => rowOf(kind, names.map(library => row[library] ?? '')))
  const listed = readTable(readSection(PAGE, 'The same requests to both')).map(([kind = '', ...cells]) =>
    rowOf(kind, cells)
  ).filter(([, ...cells]) => cells.some(cell => cell !== ''))
  t.strictSame(found.sort(), listed.sort(), 'each difference is in the table, and no other')
})
