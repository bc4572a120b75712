import { variables } from '../lib/settings/specs.ts'
import { flag, list, splitPair, text, unknownName, type Arguments, type Tool } from './arguments.ts'
import { BadUsage } from './bad-usage.ts'

const options = {
  keys: { ...text, value: 'FILE', says: 'the key set of the provider (JWKS): nothing is fetched then' },
  offline: { ...flag, says: 'fetch nothing; signatures of tokens are then not checked' },
  introspect: { ...flag, says: 'send the token to its issuer, as the service does, if introspection is on' },
  at: {
    ...text,
    value: 'TIME',
    says:
      'the time of the checks: a date, Unix seconds, or now. Default: the time of the\ncapture, if it has one, else now'
  },
  set: {
    ...list,
    value: 'NAME=VALUE',
    says: 'a setting, such as IDP_AUDIENCE=https://api.example; others are read as the service does'
  },
  scope: {
    ...text,
    value: '"A B"',
    says: "the permissions that the route needs; those of the service's own routes are known"
  },
  url: { ...text, value: 'URL', says: 'the URL of the request, if the capture lacks it' },
  method: { ...text, value: 'METHOD', says: 'the method of the request, if the capture lacks it' },
  peer: { ...text, value: 'ADDRESS', says: 'the peer that connected to the service, for TRUST_PROXY' },
  full: { ...flag, says: 'every check with the values compared, in the order of the service' },
  json: { ...flag, says: 'the report as JSON' }
} as const

export const TOOL = {
  name: 'explain',
  options,
  help: run =>
    `Explains a request: whether the service accepts it, the check that fails, what was compared, and what to do.

  ${run} [options] FILE                   from a file
  ${run} [options] -                      from standard input
  ${run} [options] curl https://...       a curl line, as the browser copies it
  ${run} [options] eyJ...                 a token or a proof

  curl -v https://api.example/api/private -H 'Authorization: DPoP ...' -H 'DPoP: ...' 2>&1 | ${run} -

File and input contain a curl line (for bash or for the Windows prompt), the output of curl -v, a HAR file or one
entry of it, the text of a request or only its header lines, a token, or a proof.`,
  ending: tenants =>
    `${
      tenants
        ? 'If no setting names a provider, the local tenant of `npm run dev` is used.'
        : 'If no setting names a provider, issuer, audience and signature of a token are not checked.'
    }
Tokens and proofs stay on this machine, unless --introspect is given; only the provider's keys are fetched.
Exit code: 0 if no check failed, else 1.`
} as const satisfies Tool

export type ExplainArguments = ReturnType<typeof readExplainArguments>

/** @param now Unix seconds @throws BadUsage */
export function readExplainArguments ({ values, positionals }: Arguments<typeof options>, now: number) {
  const { keys: keysFile, offline = false, introspect = false, at, set = [], scope, url, method, peer } = values
  const { full = false, json = false } = values
  if (introspect && offline) throw new BadUsage('--introspect asks the issuer, and --offline makes no calls.')
  if (positionals.length > 1) {
    throw new BadUsage('Give only one file. Put a request that is written here between quotes.')
  }
  if (url !== undefined && !/^https?:/i.test(URL.canParse(url) ? url : '')) {
    throw new BadUsage(`--url ${url} is not an absolute http or https URL`)
  }
  return {
    /** What to explain, or its file; undefined for standard input. */
    source: positionals[0] === '-' ? undefined : positionals[0],
    keysFile,
    offline,
    introspect,
    /** Unix seconds; undefined leaves it to the capture. */
    at: at === undefined ? undefined : readTime(at, now),
    settings: Object.fromEntries(set.map(readSetting)),
    scopes: scope?.split(' ').filter(name => name !== ''),
    url,
    method,
    peer,
    full,
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

function readSetting (pair: string): [name: string, value: string] {
  const [name, value] = splitPair('--set', pair, '=')
  if (!variables.has(name)) throw new BadUsage(unknownName('setting', name, [...variables.keys()]))
  return [name, value]
}
