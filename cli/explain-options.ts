import { settingNames } from '../lib/settings/specs.ts'
import { BadUsage, flag, list, showOptions, splitArguments, splitPair, text } from './arguments.ts'

const OPTIONS = {
  keys: { ...text, value: 'FILE', says: 'the key set of the provider (JWKS): nothing is fetched then' },
  offline: { ...flag, says: 'fetch nothing; signatures of tokens are then not checked' },
  at: { ...text, value: 'TIME', says: 'the time to judge at: a date, Unix seconds, or now. Unless told: when the capture\nwas made, where it says so, else now' },
  set: { ...list, value: 'NAME=VALUE', says: 'a setting, such as IDP_AUDIENCE=https://api.example; others are read as the service does' },
  scope: { ...text, value: '"A B"', says: "the permissions that the route needs; those of the service's own routes are known" },
  url: { ...text, value: 'URL', says: 'where the request was sent, where the capture does not tell' },
  method: { ...text, value: 'METHOD', says: 'how' },
  peer: { ...text, value: 'ADDRESS', says: 'who connected to the service, for TRUST_PROXY' },
  json: { ...flag, says: 'the report as JSON' }
} as const

export const USAGE = `Explains a captured request: what each check of the service says to it, what was compared, and what to do.

  npm run explain -- [FILE] [options]          from a file, or from standard input

  curl -v https://api.example/api/private -H 'Authorization: DPoP ...' -H 'DPoP: ...' 2>&1 | npm run explain

FILE contains the output of curl -v, a HAR file, one entry of a HAR file, or a request line and header lines.

${showOptions(OPTIONS)}

If no setting names a provider, the local tenant of \`npm run dev\` is used. Tokens and proofs stay on this
machine; only the provider's keys are fetched. Exit code: 0 if no check failed, else 1.
`

export type ExplainArguments = NonNullable<ReturnType<typeof readExplainArguments>>

/** Null when only the usage was asked for. @param now Unix seconds @throws BadUsage */
export function readExplainArguments (argv: readonly string[], now: number) {
  const split = splitArguments(argv, OPTIONS)
  if (split === null) return null
  const { values: { keys: keysFile, offline = false, at, set = [], scope, url, method, peer, json = false }, positionals } = split
  if (positionals.length > 1) throw new BadUsage('Give only one file.')
  if (url !== undefined && !/^https?:/i.test(URL.canParse(url) ? url : '')) throw new BadUsage(`--url ${url} is not an absolute http or https URL`)
  return {
    file: positionals[0],
    keysFile,
    offline,
    /** Unix seconds; undefined leaves it to the capture. */
    at: at === undefined ? undefined : readTime(at, now),
    settings: Object.fromEntries(set.map(readSetting)),
    scopes: scope?.split(' ').filter((name) => name !== ''),
    url,
    method,
    peer,
    json
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
  const [name, value] = splitPair('--set', text, '=')
  if (!settingNames.some((known) => known === name)) throw new BadUsage(`--set ${text}: there is no setting ${name}`)
  return [name, value]
}
