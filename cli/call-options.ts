import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import type { SettingsSources } from '../lib/settings/sources.ts'
import { flag, list, splitPair, text, type Arguments, type Tool, type World } from './arguments.ts'
import { BadUsage } from './bad-usage.ts'
import type { ClientConnection } from './exchange.ts'
import { parseJson } from './input.ts'
import type { Login } from './login.ts'
import { tenantAt, type Tenant } from './tenants.ts'

export interface CallWorld extends World {
  /** The local tenants that run: one of them answers if nothing else is named. */
  readonly tenants?: readonly Tenant[]
  /** The text of a file, or undefined if there is none. */
  readonly readFile?: SettingsSources['readFile']
}

const options = {
  dpop: { ...flag, says: 'a token bound to a fresh key, and a proof with the call (RFC 9449)' },
  scope: { ...text, value: '"A B"', says: 'the permissions to ask for' },
  user: { ...text, value: 'NAME', says: 'a token for this user of the local tenant, by a login for this call' },
  url: { ...text, value: 'URL', says: 'where the API is', env: 'CALL_URL' },
  issuer: { ...text, value: 'URL', says: 'the identity provider', env: 'CALL_ISSUER' },
  audience: { ...text, value: 'URI', says: 'the identifier of the API', env: 'CALL_AUDIENCE' },
  'client-id': { ...text, value: 'ID', says: 'the client, for its client credentials', env: 'CALL_CLIENT_ID' },
  'client-secret': { ...text, value: 'TEXT', says: 'preferably from the environment', env: 'CALL_CLIENT_SECRET' },
  body: { ...text, value: 'form|json', says: 'how the token request is sent; default: form' },
  param: {
    ...list,
    value: 'NAME=VALUE',
    says: 'one more parameter of the token request, such as resource=URI; with --user of the login, such as max_age=60'
  },
  alg: { ...text, value: 'ALG', says: 'of the proof: default: ES256' },
  htu: { ...text, value: 'URL', says: 'sign the proof for this URL instead of the one called' },
  cert: { ...text, value: 'FILE', says: 'the client certificate, in PEM, for the API and the provider (RFC 8705)' },
  key: { ...text, value: 'FILE', says: 'its private key, unless the same file has it' },
  cacert: { ...text, value: 'FILE', says: 'trust only these CAs, in PEM' },
  resolve: {
    ...list,
    value: 'HOST:PORT:ADDRESS',
    says: 'connect to this address for that host and port, as curl does'
  },
  header: { ...list, value: '"NAME: VALUE"', says: 'one more header of the call' },
  data: {
    ...text,
    value: 'TEXT',
    says: 'the body of the call, as a form unless a header says otherwise; default: POST'
  },
  json: { ...text, value: 'JSON', says: 'the body of the call, as JSON; default: POST' },
  'no-token': { ...flag, says: 'call without a token' },
  full: { ...flag, says: 'show tokens and proofs in full' }
} as const

const LOCAL_TENANT = ` Without these options, the local tenant of \`npm run dev\` is used:
if several run, the one at --url, else the oldest.`

export const TOOL = {
  name: 'call',
  options,
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
  const pick = (name: 'url' | 'issuer' | 'audience' | 'client-id' | 'client-secret'): string | undefined =>
    values[name] ?? (env[options[name].env] || undefined)
  const noTenant = tenants === undefined ? '' : 'no local tenant is running (npm run dev starts one): '
  const tenant = tenantAt(tenants, /^https?:/i.test(path) ? path : pick('url'))
  const issuer = pick('issuer')
  // A secret of the local tenant is nothing for another provider.
  const local = issuer === undefined ? tenant : undefined
  const payload = readPayload(values)
  const headers = Object.fromEntries((values.header ?? []).map(line => splitPair('--header', line, ':')))
  const isGiven = (header: string): boolean => Object.keys(headers).some(name => name.toLowerCase() === header)
  if (isGiven('host')) {
    throw new BadUsage('--header sends no Host: --url sets it, and --resolve the address to connect to')
  }
  const call = {
    method: rest.method ?? (payload === undefined ? 'GET' : 'POST'),
    url: join(pick('url') ?? tenant?.url, path, noTenant),
    tenant,
    payload: payload?.text,
    dpop: values.dpop === true,
    alg: values.alg ?? 'ES256',
    htu: values.htu,
    headers: { ...payload !== undefined && !isGiven('content-type') && { 'Content-Type': payload.type }, ...headers },
    full: values.full === true,
    connection: readConnection(values),
    /** An existing one; null for a call without one. */
    token: values['no-token'] === true ? null : env['CALL_TOKEN'] || undefined,
    issuer: issuer ?? local?.issuer ?? '',
    audience: pick('audience') ?? local?.audience,
    clientId: pick('client-id') ?? local?.clientId ?? '',
    clientSecret: pick('client-secret') ?? local?.clientSecret ?? '',
    scope: values.scope,
    login: values.user === undefined ? undefined : readLogin(values.user, local),
    body: values.body ?? 'form',
    parameters: (values.param ?? []).map(pair => splitPair('--param', pair, '='))
  }
  const { token, body, method } = call
  if (body !== 'form' && body !== 'json') {
    throw new BadUsage(
      `--body is form or json, not "${body}": it is the format of the token request. --data and --json are the ` +
        'body of the call'
    )
  }
  if (payload !== undefined && (method === 'GET' || method === 'HEAD')) {
    throw new BadUsage(`a ${method} request has no body: call with POST, PUT or PATCH, or without --${payload.option}`)
  }
  if (token === undefined) requireProvider(call, noTenant)
  if (token !== undefined && call.login !== undefined) {
    throw new BadUsage('--user gets a new token, so it cannot be combined with CALL_TOKEN or --no-token')
  }
  if (token !== undefined && call.dpop) {
    throw new BadUsage(
      '--dpop gets a new token bound to a fresh key, so it cannot be combined with CALL_TOKEN or --no-token'
    )
  }
  return { ...call, body } as const
}

/** Only the local tenant logs people in without a page. */
function readLogin (user: string, tenant: Tenant | undefined): Login {
  if (tenant?.loginClient === undefined) {
    throw new BadUsage(
      '--user is for the users of the local tenant of a clone (`npm run dev`). For another login, set CALL_TOKEN ' +
        'to its token'
    )
  }
  return { ...tenant.loginClient, user }
}

/** @throws BadUsage */
function readConnection (
  { cert, key, cacert, resolve }: {
    readonly cert?: string | undefined,
    readonly key?: string | undefined,
    readonly cacert?: string | undefined,
    readonly resolve?: readonly string[] | undefined
  }
): ClientConnection | undefined {
  if (key !== undefined && cert === undefined) {
    throw new BadUsage('--key is the key of a certificate: --cert names that')
  }
  if (cert === undefined && cacert === undefined && resolve === undefined) return undefined
  const shown = cert === undefined ? {} : { cert: readPem('--cert', cert), key: readPem('--key', key ?? cert) }
  return {
    ...shown,
    ...cacert !== undefined && { ca: readPem('--cacert', cacert) },
    ...resolve && { addresses: new Map(resolve.map(readAddress)) }
  }
}

function readAddress (given: string): [authority: string, address: string] {
  const [, authority = '', address = ''] = /^([^:]+:\d+):\[?([^\]]+)\]?$/.exec(given) ?? []
  if (isIP(address) === 0) throw new BadUsage(`--resolve ${given} is not HOST:PORT:ADDRESS`)
  return [authority.toLowerCase(), address]
}

function readPem (option: string, file: string): string {
  try {
    const pem = readFileSync(file, 'utf8')
    if (option !== '--key') return new X509Certificate(pem) && pem
    if (/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(pem)) return pem
  } catch {}
  throw new BadUsage(
    `${option} ${file} is not a file with a ${option === '--key' ? 'private key' : 'certificate'} in PEM`
  )
}

function readPayload (
  { data, json }: { data?: string | undefined, json?: string | undefined }
): { option: string, text: string, type: string } | undefined {
  if (data !== undefined && json !== undefined) throw new BadUsage('--data and --json cannot be combined')
  if (data !== undefined) return { option: 'data', text: data, type: 'application/x-www-form-urlencoded' }
  if (json === undefined) return undefined
  if (parseJson(json) === undefined) {
    throw new BadUsage(
      `--json ${json} is not JSON; it looks like '{"item": 1}', in single quotes. --data sends any text`
    )
  }
  return { option: 'json', text: json, type: 'application/json' }
}

function target (positionals: readonly string[]): { method: string | undefined, path: string } {
  const [first, second, third] = positionals
  if (first === undefined || third !== undefined) throw new BadUsage('say what to call, such as GET /api/private')
  if (second === undefined) return { method: undefined, path: first }
  if (!/^[A-Za-z]+$/.test(first)) throw new BadUsage(`"${first}" is not a method`)
  return { method: first.toUpperCase(), path: second }
}

function join (base: string | undefined, path: string, noTenant: string): string {
  if (/^https?:\/\//i.test(path)) return checkedUrl(path)
  if (!path.startsWith('/')) throw new BadUsage(`"${path}" is neither a path that starts with / nor a URL`)
  if (base === undefined) throw new BadUsage(`${noTenant}say with --url where the API is`)
  return checkedUrl(base.replace(/\/$/, '') + path)
}

function checkedUrl (url: string): string {
  if (!URL.canParse(url)) throw new BadUsage(`"${url}" is not a URL`)
  return url
}

function requireProvider (
  { issuer, clientId, clientSecret, connection }: Readonly<Record<'issuer' | 'clientId' | 'clientSecret', string>> & {
    readonly connection: ClientConnection | undefined
  },
  noTenant: string
): void {
  if (issuer === '') throw new BadUsage(`${noTenant}name a provider with --issuer, or call with --no-token`)
  if (!/^https?:\/\//i.test(issuer)) {
    throw new BadUsage(`the issuer is a URL with its scheme, such as https://${issuer}/`)
  }
  checkedUrl(issuer)
  if (clientId === '') throw new BadUsage('which client asks for the token? --client-id or CALL_CLIENT_ID')
  // A certificate may be all that proves the client (RFC 8705 section 2).
  if (clientSecret === '' && connection?.cert === undefined) {
    throw new BadUsage('what is the secret of the client? CALL_CLIENT_SECRET')
  }
}
