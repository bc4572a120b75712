import { isIP } from 'node:net'
import type { SettingsSources } from '../lib/settings/sources.ts'
import { flag, list, splitPair, text, type Arguments, type Tool, type World } from './arguments.ts'
import { BadUsage } from './bad-usage.ts'
import { parseJson } from './input.ts'
import { tenantAt, type Tenant } from './tenants.ts'

export interface CallWorld extends World {
  /** The text of a file, or undefined if there is none. */
  readonly readFile?: SettingsSources['readFile']
}

const options = {
  dpop: { ...flag, says: 'a token bound to a fresh key, and a proof with the call (RFC 9449)' },
  scope: { ...text, value: '"A B"', says: 'the permissions to ask for' },
  url: { ...text, value: 'URL', says: 'where the API is', env: 'CALL_URL' },
  issuer: { ...text, value: 'URL', says: 'the identity provider', env: 'CALL_ISSUER' },
  audience: { ...text, value: 'URI', says: 'the identifier of the API', env: 'CALL_AUDIENCE' },
  'client-id': { ...text, value: 'ID', says: 'the client, for its client credentials', env: 'CALL_CLIENT_ID' },
  'client-secret': { ...text, value: 'TEXT', says: 'preferably from the environment', env: 'CALL_CLIENT_SECRET' },
  body: { ...text, value: 'form|json', says: 'how the token request is sent; default: form' },
  param: { ...list, value: 'NAME=VALUE', says: 'one more parameter of the token request, such as resource=URI' },
  resolve: {
    ...list,
    value: 'HOST:PORT:ADDRESS',
    says: 'connect to this address for that host and port, as curl does'
  },
  header: { ...list, value: '"NAME: VALUE"', says: 'one more header of the call' },
  json: { ...text, value: 'JSON', says: 'the body of the call; default: POST' },
  'no-token': { ...flag, says: 'call without a token' },
  full: { ...flag, says: 'show tokens and proofs in full' }
} as const

const LOCAL_TENANT = ` Without these options, the local tenant of \`npm run dev\` is used:
if several run, the one at --url, else the oldest.`

export const TOOL = {
  name: 'call',
  options,
  mostWords: 2,
  help: run =>
    `Gets an access token, calls the API with it, and shows what was sent and what came back.

  ${run} [METHOD] PATH [options]

  ${run} --dpop GET /api/private
  ${run} GET /api/private-scoped --scope read:messages
  ${run} POST /api/orders --json '{"item": 1}'`,
  ending: tenants =>
    `If you already have a token, set CALL_TOKEN.${tenants ? LOCAL_TENANT : ''}
Exit code: 0 if the API answered 2xx, else 1.`
} as const satisfies Tool

export type CallOptions = ReturnType<typeof readCallOptions>

const JSON_TYPE = { 'Content-Type': 'application/json' }

/**
 * An option wins over the environment, which wins over the local tenant.
 * @param tenants undefined if there can be none
 * @throws BadUsage
 */
export function readCallOptions (
  { values, positionals }: Arguments<typeof options>,
  env: NodeJS.ProcessEnv,
  tenants?: readonly Tenant[]
) {
  const { path, ...rest } = target(positionals)
  const pick = (name: 'url' | 'issuer' | 'audience' | 'client-id' | 'client-secret') =>
    values[name] ?? (env[options[name].env] || undefined)
  const noTenant = tenants === undefined ? '' : 'no local tenant is running (npm run dev starts one): '
  const tenant = tenantAt(tenants, /^https?:/i.test(path) ? path : pick('url'))
  const issuer = pick('issuer')
  // A secret of the local tenant is nothing for another provider.
  const local = issuer === undefined ? tenant : undefined
  const { json, body = 'form' } = values
  const headers = Object.fromEntries((values.header ?? []).map(line => splitPair('--header', line, ':')))
  const isGiven = (header: string) => Object.keys(headers).some(name => name.toLowerCase() === header)
  if (isGiven('host')) {
    throw new BadUsage('--header sends no Host: --url sets it, and --resolve the address to connect to')
  }
  const call = {
    method: rest.method ?? (json === undefined ? 'GET' : 'POST'),
    url: join(pick('url') ?? tenant?.url, path, noTenant),
    payload: json,
    dpop: values.dpop === true,
    headers: { ...json !== undefined && !isGiven('content-type') && JSON_TYPE, ...headers },
    full: values.full === true,
    addresses: values.resolve && new Map(values.resolve.map(readAddress)),
    /** An existing one; null for a call without one. */
    token: values['no-token'] === true ? null : env['CALL_TOKEN'] || undefined,
    issuer: issuer ?? local?.issuer ?? '',
    audience: pick('audience') ?? local?.audience,
    clientId: pick('client-id') ?? local?.clientId ?? '',
    clientSecret: pick('client-secret') ?? local?.clientSecret ?? '',
    scope: values.scope,
    parameters: (values.param ?? []).map(pair => splitPair('--param', pair, '='))
  }
  const { token, method } = call
  if (body !== 'form' && body !== 'json') throw new BadUsage(`--body is form or json, not "${body}"`)
  if (json !== undefined && parseJson(json) === undefined) {
    throw new BadUsage(`--json ${json} is not JSON; it looks like '{"item": 1}', in single quotes`)
  }
  if (json !== undefined && (method === 'GET' || method === 'HEAD')) {
    throw new BadUsage(`a ${method} request has no body: call with POST, PUT or PATCH, or without --json`)
  }
  if (token === undefined) requireProvider(call, noTenant)
  else if (call.dpop) {
    throw new BadUsage(
      '--dpop gets a new token bound to a fresh key, so it cannot be combined with CALL_TOKEN or --no-token'
    )
  }
  return { ...call, body } as const
}

function readAddress (given: string): [authority: string, address: string] {
  const [, authority = '', address = ''] = /^([^:]+:\d+):\[?([^\]]+)\]?$/.exec(given) ?? []
  if (isIP(address) === 0) throw new BadUsage(`--resolve ${given} is not HOST:PORT:ADDRESS`)
  return [authority.toLowerCase(), address]
}

function target (positionals: readonly string[]): { method: string | undefined, path: string } {
  const [first, second] = positionals
  if (first === undefined) throw new BadUsage('say what to call, such as GET /api/private')
  if (second === undefined) return { method: undefined, path: first }
  if (!/^[A-Za-z]+$/.test(first)) throw new BadUsage(`"${first}" is not a method`)
  return { method: first.toUpperCase(), path: second }
}

function join (base: string | undefined, path: string, noTenant: string): string {
  if (/^https?:\/\//i.test(path)) return checkedUrl(path)
  if (!path.startsWith('/')) throw new BadUsage(`"${path}" is neither a path that starts with / nor a URL`)
  if (base === undefined) throw new BadUsage(`${noTenant}say with --url where the API is`)
  if (!/^https?:\/\//i.test(base)) throw new BadUsage(`the API is a URL with its scheme, such as http://${base}`)
  return checkedUrl(base.replace(/\/$/, '') + path)
}

function checkedUrl (url: string): string {
  if (!URL.canParse(url)) throw new BadUsage(`"${url}" is not a URL`)
  // As it is sent: the proof names it.
  return new URL(url).href
}

function requireProvider (
  { issuer, clientId, clientSecret }: Readonly<Record<'issuer' | 'clientId' | 'clientSecret', string>>,
  noTenant: string
) {
  if (issuer === '') throw new BadUsage(`${noTenant}name a provider with --issuer, or call with --no-token`)
  if (!/^https?:\/\//i.test(issuer)) {
    throw new BadUsage(`the issuer is a URL with its scheme, such as https://${issuer}/`)
  }
  checkedUrl(issuer)
  if (clientId === '') throw new BadUsage('which client asks for the token? --client-id or CALL_CLIENT_ID')
  if (clientSecret === '') throw new BadUsage('what is the secret of the client? CALL_CLIENT_SECRET')
}
