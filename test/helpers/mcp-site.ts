import type { Test } from 'tap'
import { startApp, type RunningApp } from './app.ts'
import { startIssuer, type Issuer } from './issuer.ts'
import { startUpstream, type Answerer, type TestUpstream } from './upstream.ts'
import { sendRaw, type WireAnswer } from './wire.ts'

const RULES = [
  { path: '/mcp', mcp: { methods: ['initialize', 'tools/list'] }, scope: 'use' },
  { path: '/mcp', mcp: { tools: ['read_*'] }, scope: 'read' },
  { path: '/mcp', mcp: { tools: ['delete_order'] }, scope: 'delete' },
  { path: '/mcp', mcp: { tools: ['pay'] }, maxAgeSeconds: 60 },
  { path: '/mcp', methods: ['GET'], scope: 'use' },
  { path: '/all', mcp: {}, scope: 'use' },
  { path: '/mixed', mcp: { methods: ['tools/list'] }, allow: 'anyone' },
  { path: '/mixed', mcp: { tools: ['read_*'] }, scope: 'read' },
  { path: '/free', mcp: { tools: ['read_*'] }, allow: 'anyone' },
  { path: '/guests', mcp: { tools: ['read_*'] }, optional: true },
  { path: '/guests', mcp: { tools: ['write'] }, optional: true, scope: 'delete' },
  { path: '/guests', mcp: { tools: ['drop'] } },
  { path: '/upgrades', mcp: {}, upgrade: true },
  { path: '/*', scope: 'other' }
]

export interface McpSite extends RunningApp {
  issuer: Issuer
  upstream: TestUpstream
  /** One POST of this body, as JSON, unless it is a text already. */
  post (body: unknown, lines?: readonly string[], path?: string): Promise<WireAnswer>
  send (method: string, path: string, lines: readonly string[]): Promise<WireAnswer>
}

/** A gate with rules for messages, before an upstream. */
export async function startSite (t: Test, gate: object = {}, values: object = {}, answer?: Answerer): Promise<McpSite> {
  const issuer = await startIssuer(t)
  const upstream = await startUpstream(t, answer)
  const running = await startApp(t, issuer, {
    GATE: { upstream: upstream.origin, rules: RULES, ...gate },
    LOG_LEVEL: 'info',
    ...values
  })
  const { host } = new URL(running.url)
  const send = (method: string, path: string, lines: readonly string[]) =>
    sendRaw(running.url, [`${method} ${path} HTTP/1.1`, `Host: ${host}`, 'Connection: close', ...lines])
  return {
    ...running,
    issuer,
    upstream,
    send,
    post (body, lines = [], path = '/mcp') {
      const bytes = bytesOf(body)
      return send('POST', path, [
        'Content-Type: application/json',
        `Content-Length: ${bytes.length}`,
        ...lines,
        '',
        bytes
      ])
    }
  }
}

/** A character for each byte. */
export const bytesOf = (body: unknown) =>
  Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)).toString('latin1')

export const message = (method: string, params: object = {}): object => ({ jsonrpc: '2.0', id: 1, method, params })
export const call = (name: string): object => message('tools/call', { name, arguments: { note: 'caf\u00e9' } })
export const reply = { jsonrpc: '2.0', id: 1, result: {} }
