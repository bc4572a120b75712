import { BadUsage, flag, list, showOptions, splitArguments, splitPair, text } from './arguments.ts'
import type { Tenant } from './places.ts'

const OPTIONS = {
  dpop: { ...flag, says: 'a token bound to a fresh key, and a proof with the call (RFC 9449)' },
  scope: { ...text, value: '"A B"', says: 'the permissions to ask for' },
  url: { ...text, value: 'URL', says: 'where the API is', env: 'CALL_URL' },
  issuer: { ...text, value: 'URL', says: 'the identity provider', env: 'CALL_ISSUER' },
  audience: { ...text, value: 'URI', says: 'the identifier of the API', env: 'CALL_AUDIENCE' },
  'client-id': { ...text, value: 'ID', says: 'the client, for its client credentials', env: 'CALL_CLIENT_ID' },
  'client-secret': { ...text, value: 'TEXT', says: 'better from the environment', env: 'CALL_CLIENT_SECRET' },
  body: { ...text, value: 'form|json', says: 'how the token request is sent; form unless told' },
  param: { ...list, value: 'NAME=VALUE', says: 'one more parameter of the token request, such as resource=URI' },
  alg: { ...text, value: 'ALG', says: 'of the proof: ES256 unless told' },
  htu: { ...text, value: 'URL', says: 'sign the proof for this URL instead of the one called' },
  header: { ...list, value: '"NAME: VALUE"', says: 'one more header of the call' },
  'no-token': { ...flag, says: 'call without a token' },
  full: { ...flag, says: 'show tokens and proofs whole' }
} as const

export const USAGE = `Gets an access token, calls the API with it, and shows what was sent and what came back.

  npm run call -- [METHOD] PATH [options]

  npm run call -- --dpop GET /api/private
  npm run call -- GET /api/private-scoped --scope read:messages

${showOptions(OPTIONS)}

If you already have a token, set CALL_TOKEN. Without these options, the local tenant of \`npm run dev\` is used.
Exit code: 0 if the API answered 2xx, else 1.
`

export type CallOptions = NonNullable<ReturnType<typeof readCallOptions>>

/** Null when only the usage was asked for. A flag beats the environment, which beats the local tenant. */
export function readCallOptions (argv: readonly string[], env: NodeJS.ProcessEnv, tenant: Tenant | undefined) {
  const split = splitArguments(argv, OPTIONS)
  if (split === null) return null
  const { values, positionals } = split
  const { method, path } = target(positionals)
  const pick = (name: 'url' | 'issuer' | 'audience' | 'client-id' | 'client-secret'): string | undefined => values[name] ?? (env[OPTIONS[name].env] || undefined)
  const issuer = pick('issuer')
  // A secret of the local tenant is nothing for another provider.
  const local = issuer === undefined ? tenant : undefined
  const options = {
    method,
    url: join(pick('url') ?? tenant?.url, path),
    dpop: values.dpop === true,
    alg: values.alg ?? 'ES256',
    htu: values.htu,
    headers: Object.fromEntries((values.header ?? []).map((line) => splitPair('--header', line, ':'))),
    full: values.full === true,
    /** One that is there already; null for a call without one. */
    token: values['no-token'] === true ? null : env['CALL_TOKEN'] || undefined,
    issuer: issuer ?? local?.issuer ?? '',
    audience: pick('audience') ?? local?.audience,
    clientId: pick('client-id') ?? local?.clientId ?? '',
    clientSecret: pick('client-secret') ?? local?.clientSecret ?? '',
    scope: values.scope,
    body: values.body ?? 'form',
    parameters: (values.param ?? []).map((pair) => splitPair('--param', pair, '='))
  }
  const { token, body } = options
  if (body !== 'form' && body !== 'json') throw new BadUsage(`--body is form or json, not "${body}"`)
  if (token === undefined) requireProvider(options)
  if (token !== undefined && options.dpop) throw new BadUsage('--dpop gets a new token bound to a fresh key, so it cannot be combined with CALL_TOKEN or --no-token')
  return { ...options, body } as const
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

function requireProvider ({ issuer, clientId, clientSecret }: Readonly<Record<'issuer' | 'clientId' | 'clientSecret', string>>): void {
  if (issuer === '') throw new BadUsage('no local tenant is running (npm run dev starts one): name a provider with --issuer, or call with --no-token')
  if (!/^https?:\/\//i.test(issuer)) throw new BadUsage(`the issuer is a URL with its scheme, such as https://${issuer}/`)
  checkedUrl(issuer)
  if (clientId === '') throw new BadUsage('which client asks for the token? --client-id or CALL_CLIENT_ID')
  if (clientSecret === '') throw new BadUsage('what is the secret of the client? CALL_CLIENT_SECRET')
}
