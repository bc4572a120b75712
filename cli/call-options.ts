import { BadUsage, splitArguments } from './arguments.ts'
import type { Tenant } from './places.ts'

export const USAGE = `Gets an access token, calls the API with it, and shows what was sent and what came back.

  npm run call -- [METHOD] PATH [options]

  npm run call -- --dpop GET /api/private
  npm run call -- GET /api/private-scoped --scope read:messages

  --dpop                 a token bound to a fresh key, and a proof with the call (RFC 9449)
  --scope "A B"          the permissions to ask for
  --url URL              where the API is                            CALL_URL
  --issuer URL           the identity provider                       CALL_ISSUER
  --audience URI         the identifier of the API                   CALL_AUDIENCE
  --client-id ID         the client, for its client credentials      CALL_CLIENT_ID
  --client-secret TEXT   its secret; better set CALL_CLIENT_SECRET   CALL_CLIENT_SECRET
  --body form|json       how the token request is sent (default: form)
  --param NAME=VALUE     another parameter for the token request, such as resource=URI
  --alg ALG              the algorithm of the proof (default: ES256)
  --htu URL              sign the proof for this URL instead of the one called
  --header "NAME: VALUE" another header for the call
  --no-token             call without a token
  --full                 show tokens and proofs in full

If you already have a token, set CALL_TOKEN. Without these options, the local tenant of \`npm run dev\` is used.
Exit code: 0 if the API answered 2xx, else 1.
`

export interface CallOptions {
  method: string
  /** The whole URL that is called. */
  url: string
  dpop: boolean
  alg: string
  htu: string | undefined
  headers: Record<string, string>
  full: boolean
  /** A token that is there already; null for a call without one. */
  token: string | null | undefined
  issuer: string
  audience: string | undefined
  clientId: string
  clientSecret: string
  scope: string | undefined
  body: 'form' | 'json'
  parameters: Array<readonly [string, string]>
}

const text = { type: 'string' } as const
const flag = { type: 'boolean' } as const
const list = { type: 'string', multiple: true } as const

const FLAGS = {
  dpop: flag,
  scope: text,
  url: text,
  issuer: text,
  audience: text,
  'client-id': text,
  'client-secret': text,
  body: text,
  param: list,
  alg: text,
  htu: text,
  header: list,
  'no-token': flag,
  full: flag,
  help: { type: 'boolean', short: 'h' }
} as const

/** Null when only the usage was asked for. A flag beats the environment, which beats the local tenant. */
export function readCallOptions (argv: readonly string[], env: NodeJS.ProcessEnv, tenant: Tenant | undefined): CallOptions | null {
  const { values, positionals } = splitArguments(argv, FLAGS)
  if (values.help === true) return null
  const { method, path } = target(positionals)
  const pick = (name: string, value: string | undefined): string | undefined => value ?? (env[name] || undefined)
  const issuer = pick('CALL_ISSUER', values.issuer)
  const token = values['no-token'] === true ? null : env['CALL_TOKEN'] || undefined
  // A secret of the local tenant is nothing for another provider.
  const local = issuer === undefined ? tenant : undefined
  const options: CallOptions = {
    method,
    url: join(pick('CALL_URL', values.url) ?? tenant?.url, path),
    dpop: values.dpop === true,
    alg: values.alg ?? 'ES256',
    htu: values.htu,
    headers: Object.fromEntries((values.header ?? []).map((line) => split(line, ':', '--header'))),
    full: values.full === true,
    token,
    issuer: issuer ?? local?.issuer ?? '',
    audience: pick('CALL_AUDIENCE', values.audience) ?? local?.audience,
    clientId: pick('CALL_CLIENT_ID', values['client-id']) ?? local?.clientId ?? '',
    clientSecret: pick('CALL_CLIENT_SECRET', values['client-secret']) ?? local?.clientSecret ?? '',
    scope: values.scope,
    body: bodyForm(values.body),
    parameters: (values.param ?? []).map((pair) => split(pair, '=', '--param'))
  }
  if (token === undefined) requireProvider(options)
  if (token !== undefined && options.dpop) throw new BadUsage('--dpop gets a new token bound to a fresh key, so it cannot be combined with CALL_TOKEN or --no-token')
  return options
}

function target (positionals: readonly string[]): { method: string, path: string } {
  const [first, second, third] = positionals
  if (first === undefined || third !== undefined) throw new BadUsage('say what to call, such as GET /api/private')
  const [method, path] = second === undefined ? ['GET', first] : [first, second]
  if (!/^[A-Za-z]+$/.test(method)) throw new BadUsage(`"${method}" is not a method`)
  return { method: method.toUpperCase(), path }
}

function join (base: string | undefined, path: string): string {
  if (/^https?:\/\//i.test(path)) return checkedUrl(path)
  if (!path.startsWith('/')) throw new BadUsage(`"${path}" is neither a path that starts with / nor a URL`)
  if (base === undefined) throw new BadUsage('no local tenant is running (npm run dev starts one): say with --url where the API is')
  return checkedUrl(base.replace(/\/$/, '') + path)
}

function checkedUrl (url: string): string {
  if (!URL.canParse(url)) throw new BadUsage(`"${url}" is not a URL`)
  return url
}

function requireProvider ({ issuer, clientId, clientSecret }: CallOptions): void {
  if (issuer === '') throw new BadUsage('no local tenant is running (npm run dev starts one): name a provider with --issuer, or call with --no-token')
  if (!/^https?:\/\//i.test(issuer)) throw new BadUsage(`the issuer is a URL with its scheme, such as https://${issuer}/`)
  checkedUrl(issuer)
  if (clientId === '') throw new BadUsage('which client asks for the token? --client-id or CALL_CLIENT_ID')
  if (clientSecret === '') throw new BadUsage('what is the secret of the client? CALL_CLIENT_SECRET')
}

function bodyForm (value: string | undefined): 'form' | 'json' {
  if (value === undefined || value === 'form') return 'form'
  if (value === 'json') return 'json'
  throw new BadUsage(`--body is form or json, not "${value}"`)
}

function split (pair: string, mark: string, name: string): [string, string] {
  const at = pair.indexOf(mark)
  if (at < 1) throw new BadUsage(`${name} "${pair}" has no ${mark}`)
  return [pair.slice(0, at).trim(), pair.slice(at + 1).trim()]
}
