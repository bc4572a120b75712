import { settingNames } from '../lib/settings/specs.ts'
import { BadUsage, splitArguments } from './arguments.ts'

export const USAGE = `Explains a captured request: what each check of the service says to it, what was compared, and what to do.

  npm run explain -- [FILE] [options]          from a file, or from standard input

  curl -v https://api.example/api/private -H 'Authorization: DPoP ...' -H 'DPoP: ...' 2>&1 | npm run explain

FILE contains the output of curl -v, a HAR file, one entry of a HAR file, or a request line and header lines.

  --keys FILE        the key set of the provider (JWKS); then nothing is fetched
  --offline          fetch nothing; then signatures of tokens are not checked
  --at TIME          the time at which to check: a date, Unix seconds, or now. Default: the time of the
                     capture if the capture says it, else now
  --set NAME=VALUE   a setting, such as IDP_AUDIENCE=https://api.example; the others come from where the service reads them
  --scope "A B"      the permissions that the route needs; not needed for the service's own routes
  --url URL          where the request was sent, if the capture does not say
  --method METHOD    the method of the request, if the capture does not say
  --peer ADDRESS     the address that connected to the service, for TRUST_PROXY
  --json             the report as JSON

If no setting names a provider, the local tenant of \`npm run dev\` is used. Tokens and proofs stay on this
machine; only the provider's keys are fetched. Exit code: 0 if no check failed, else 1.
`

export interface ExplainArguments {
  readonly file: string | undefined
  readonly keysFile: string | undefined
  readonly offline: boolean
  /** Unix seconds; undefined leaves it to the capture. */
  readonly at: number | undefined
  readonly settings: Readonly<Record<string, string>>
  readonly scopes: readonly string[] | undefined
  readonly url: string | undefined
  readonly method: string | undefined
  readonly peer: string | undefined
  readonly json: boolean
}

const text = { type: 'string' } as const
const flag = { type: 'boolean' } as const

const FLAGS = {
  keys: text,
  offline: flag,
  at: text,
  set: { type: 'string', multiple: true },
  scope: text,
  url: text,
  method: text,
  peer: text,
  json: flag,
  help: { type: 'boolean', short: 'h' }
} as const

/** Null when only the usage was asked for. @param now Unix seconds @throws BadUsage */
export function readExplainArguments (argv: readonly string[], now: number): ExplainArguments | null {
  const { values, positionals } = splitArguments(argv, FLAGS)
  if (values.help === true) return null
  if (positionals.length > 1) throw new BadUsage('Give only one file.')
  if (values.url !== undefined && !/^https?:/i.test(URL.canParse(values.url) ? values.url : '')) throw new BadUsage(`--url ${values.url} is not an absolute http or https URL`)
  return {
    file: positionals[0],
    keysFile: values.keys,
    offline: values.offline === true,
    at: values.at === undefined ? undefined : readTime(values.at, now),
    settings: Object.fromEntries((values.set ?? []).map(readSetting)),
    scopes: values.scope?.split(' ').filter((scope) => scope !== ''),
    url: values.url,
    method: values.method,
    peer: values.peer,
    json: values.json === true
  }
}

/** Of the dates that JavaScript knows. */
const LAST_SECOND = 8.64e12

function readTime (value: string, now: number): number {
  if (value === 'now') return now
  const seconds = /^\d+(?:\.\d+)?$/.test(value) ? Number(value) : Date.parse(value) / 1000
  if (!(seconds <= LAST_SECOND)) throw new BadUsage(`--at ${value} is neither a date nor Unix seconds`)
  return seconds
}

function readSetting (text: string): [name: string, value: string] {
  const equals = text.indexOf('=')
  if (equals < 1) throw new BadUsage(`--set ${text}: expected NAME=VALUE`)
  const name = text.slice(0, equals)
  if (!settingNames.some((known) => known === name)) throw new BadUsage(`--set ${text}: there is no setting ${name}`)
  return [name, text.slice(equals + 1)]
}
