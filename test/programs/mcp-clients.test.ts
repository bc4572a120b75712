import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Agent, AgentSite } from '../mcp/agents.ts'
import { CLIENTS, PROGRAMS } from '../mcp/clients.ts'
import { startServer, type ServerForm } from '../mcp/servers.ts'
import { startApp } from '../helpers/app.ts'
import { readProse, readTable } from '../helpers/documents.ts'
import { startIssuer } from '../helpers/issuer.ts'

const LATE = 'No answer'
const ACTS = ['begin', 'list', 'call', 'refused tool', 'step-up', 'long call', 'stream', 'revoked'] as const
const SERVERS: readonly ServerForm[] = ['old', 'new', 'both']

const RULES = [
  {
    path: '/mcp',
    mcp: {
      methods: [
        'initialize',
        'notifications/initialized',
        'notifications/cancelled',
        'ping',
        'server/discover',
        'subscriptions/listen'
      ]
    },
    scope: 'use'
  },
  { path: '/mcp', mcp: { methods: ['tools/list'], onlyRuled: true }, scope: 'use' },
  { path: '/mcp', mcp: { tools: ['read', 'stream'] }, scope: 'use' },
  { path: '/mcp', mcp: { tools: ['slow'] }, scope: 'use', timeoutSeconds: 30 },
  { path: '/mcp', mcp: { tools: ['write'] }, scope: ['use', 'write'] },
  { path: '/mcp', methods: ['GET', 'DELETE'], scope: 'use' }
]

interface Site extends AgentSite {
  tokenFor (scope: string): string
  revoke (): Promise<void>
}

async function openSite (t: Test, form: ServerForm) {
  const issuer = await startIssuer(t)
  const { url } = await startApp(t, issuer, {
    GATE: { upstream: await startServer(t, form), timeoutSeconds: 2, rules: RULES },
    REVOCATION: { operators: { scope: 'revoke' } }
  })
  const tokenFor = (scope: string) => issuer.token({ scope })
  return {
    url: `${url}/mcp`,
    token: tokenFor('use'),
    tokenFor,
    async revoke () {
      const body = JSON.stringify({ sub_id: { format: 'iss_sub', iss: issuer.url, sub: 'user-1' } })
      const { status } = await fetch(`${url}/revocation/subjects`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${issuer.token({ sub: 'operator', scope: 'revoke' })}`,
          'content-type': 'application/json'
        },
        body
      })
      if (status !== 204) throw new Error(`The revocation was answered with ${status}`)
    }
  }
}

/** Fails unless the work fails with a reason for the user. */
async function isTold (work: Promise<unknown>, reason: RegExp) {
  const text = await work.then(answer => `passed: ${JSON.stringify(answer)}`, ({ message }: Error) => message)
  if (!reason.test(text)) throw new Error(text)
  return text
}

async function passes (agent: Agent, tool: string) {
  const { text } = await agent.call(tool)
  if (text !== `${tool}: done`) throw new Error(text)
}

function actsOf (site: Site, agent: Agent) {
  return {
    async begin () {
      await agent.begin()
      return 'yes'
    },
    async list () {
      const names = (await agent.list()).join(' ')
      if (names !== 'read write slow stream') throw new Error(names)
      return 'yes'
    },
    async call () {
      await passes(agent, 'read')
      return 'yes'
    },
    async 'refused tool' () {
      const told = await isTold(agent.call('drop'), /No rule holds for what the message names|not found on server/)
      await passes(agent, 'read')
      return told.includes('No rule') ? 'told' : 'hidden'
    },
    async 'step-up' () {
      // Some begin a login for the scope, which needs a provider that has one.
      const told = await isTold(agent.call('write'), /lacks a permission|Insufficient scope|authorization_endpoint/)
      const isLogin = /authorization_endpoint/.test(told)
      if (!isLogin) await passes(agent, 'read')
      site.token = site.tokenFor('use write')
      if (agent.keepsToken) {
        await agent.close()
        await agent.begin()
      }
      await passes(agent, 'write')
      return isLogin ? 'login' : 'told'
    },
    async 'long call' () {
      await passes(agent, 'slow')
      return 'yes'
    },
    async stream () {
      if (agent.hasNoProgress) return '-'
      const { text, progress } = await agent.call('stream')
      if (text !== 'stream: done' || progress === 0) throw new Error(`${text}, ${progress}`)
      return 'yes'
    },
    async revoked () {
      await site.revoke()
      // This refusal has no body of the protocol, because the body of the request has not been read.
      const text = await agent.call('read').then(() => 'passed', ({ message }: Error) => message)
      if (text === 'passed' || text === LATE) throw new Error(text)
      if (text.includes('authorization_endpoint')) return 'login'
      return /401|Unauthorized|has been revoked/.test(text) ? 'told' : 'refused'
    }
  }
}

/** The rows of the table in the reference: client and server, and what came of each act. */
const expected = new Map(
  readTable(readProse('lab/reports/mcp-clients.md')).map((
    [client, server, ...cells]
  ) => [`${client} ${server}`, cells])
)
const measured: string[] = []

for (const form of SERVERS) {
  for (const [client, make] of CLIENTS) {
    t.test(`${client} against a server of form ${form} does what the table of clients says.`, async t => {
      const site = await openSite(t, form)
      const agent = make(site)
      t.teardown(() => agent.close().catch(() => {}))
      const acts = actsOf(site, agent)
      const cells: string[] = []
      const reasons: string[] = []
      for (const act of ACTS) {
        // A client without a connection does nothing else.
        if (cells[0]?.startsWith('no')) cells.push('-')
        else {
          cells.push(
            await limited(acts[act]()).catch((error: Error) => {
              reasons.push(`${act}: ${error.message}`)
              return 'no'
            })
          )
        }
      }
      measured.push(`| ${[client, form, ...cells].join(' | ')} |`)
      t.strictSame(cells, expected.get(`${client} ${form}`), reasons.join(', ') || 'every act succeeds')
    })
  }
}

/**
 * The protocol's own suites: the released one, which knows the revisions with sessions, and the next one with what
 * 2026-07-28 requires.
 */
const SUITES: ReadonlyArray<[form: ServerForm, name: string, ...args: string[]]> = [
  ['old', '@modelcontextprotocol/conformance'],
  ['both', '@modelcontextprotocol/conformance'],
  ['new', 'conformance-next', '--requirements', '2026-07-28'],
  ['both', 'conformance-next', '--requirements', '2026-07-28']
]

/** What a suite finds, a line for each scenario. */
async function conform (folder: string, name: string, url: string, args: readonly string[]) {
  const packages = join(folder, 'npm', 'node_modules')
  const child = spawn(join(packages, `node-${process.platform}-${process.arch}`, 'bin', 'node'), [
    join(packages, name, 'dist', 'index.js'),
    'server',
    '--url',
    url,
    ...args
  ], { cwd: folder, stdio: ['ignore', 'pipe', 'ignore'] })
  const text = (await child.stdout.toArray()).join('')
  return text.split('\n').filter(line => /: \d+ passed, \d+ failed/.test(line))
}

for (const [form, name, ...args] of PROGRAMS === undefined ? [] : SUITES) {
  t.test(`The conformance suite (${name}) finds the same in a server of form ${form} behind the gate as without it.`, async t => {
    const upstream = await startServer(t, form)
    const { url } = await startApp(t, await startIssuer(t), {
      GATE: { upstream, rules: [{ path: '/mcp', mcp: {}, allow: 'anyone' }] }
    })
    const found = await conform(PROGRAMS!, name, `${upstream}/mcp`, args)
    t.ok(found.length > 20, `${found.length} scenarios`)
    t.strictSame(await conform(PROGRAMS!, name, `${url}/mcp`, args), found)
  })
}

t.test('The table is written down.', async t => {
  t.equal(measured.length, SERVERS.length * CLIENTS.length)
  if (process.env['MCP_TABLE'] !== undefined) writeFileSync(process.env['MCP_TABLE'], `${measured.join('\n')}\n`)
})

function limited<T> (work: Promise<T>) {
  let timer: NodeJS.Timeout
  return Promise.race([
    work,
    new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => reject(new Error(LATE)), 60_000)
    })
  ]).finally(() => clearTimeout(timer))
}
