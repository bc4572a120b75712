import { isIP } from 'node:net'
import type { SettingsSources } from '../lib/settings/sources.ts'
import { variables } from '../lib/settings/specs.ts'
import { flag, list, runTool, splitPair, text, unknownName, type Tool, type World } from './arguments.ts'
import { BadUsage } from './bad-usage.ts'
import type { Capture } from './capture.ts'
import { showReport } from './explain-report.ts'
import { readAtMost } from './input.ts'
import { judgeCapture } from './judge-capture.ts'
import { NO_REQUEST, readCapture } from './read-capture.ts'
import { readCurlWords } from './read-curl.ts'

interface ExplainWorld extends World {
  /** The text of a file, or undefined if there is none. */
  readonly readFile: SettingsSources['readFile']
  readonly input: AsyncIterable<Buffer> & { readonly isTTY?: boolean }
  /** Unix seconds. */
  readonly now: number
}

const TOOL = {
  name: 'explain',
  options: {
    introspect: { ...flag, says: 'send the token to its issuer, as the service does, if introspection is on' },
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
    peer: { ...text, value: 'ADDRESS', says: 'the peer that connected to the service, for TRUST_PROXY' },
    full: { ...flag, says: 'every check with the values compared, in the order of the service' }
  },
  mostWords: 1,
  help: run =>
    `Explains a request: whether the service accepts it, the check that fails, what was compared, and what to do.

  ${run} [options] FILE                   from a file
  ${run} [options] -                      from standard input
  ${run} [options] curl https://...       a curl line, as the browser copies it

  curl -v https://api.example/api/private -H 'Authorization: DPoP ...' -H 'DPoP: ...' 2>&1 | ${run} -

File and input contain a curl line (for bash), the output of curl -v, a HAR file or one entry of it, or the text of a
request. The time of the checks is that of the capture, if it has one.`,
  ending: tenants =>
    `${
      tenants
        ? 'If no setting names a provider, the local tenant of `npm run dev` is used.'
        : 'If no setting names a provider, issuer, audience and signature of a token are not checked.'
    }
Tokens and proofs stay on this machine, unless --introspect is given; only the provider's keys are fetched.
Exit code: 0 if no check failed, else 1.`
} as const satisfies Tool

/** Explains one request as the arguments say. Returns the exit code: 0 if no check failed, else 1. */
export function explain (argv: readonly string[], world: ExplainWorld): Promise<number> {
  // What follows the word curl are the options of curl.
  const at = argv.indexOf('curl')
  const own = at < 0 ? argv : argv.slice(0, at)
  return runTool(
    TOOL,
    world.input.isTTY === true && argv.length === 0 ? ['--help'] : own,
    world,
    async ({ values, positionals: [source] }, paint) => {
      const { introspect = false, set = [], scope, url, peer, full = false } = values
      if (url !== undefined && !/^https?:/i.test(URL.canParse(url) ? url : '')) {
        throw new BadUsage(`--url ${url} is not an absolute http or https URL`)
      }
      if (peer !== undefined && isIP(peer) === 0) throw new BadUsage(`--peer ${peer} is not an IP address`)
      const capture = at < 0 ? await readSource(source, world) : readCurlWords(argv.slice(at + 1))
      if (capture === undefined) throw new BadUsage(NO_REQUEST)
      const settings = Object.fromEntries(set.map(readSetting))
      const scopes = scope?.split(' ').filter(name => name !== '')
      const report = await judgeCapture(capture, { introspect, settings, scopes, url, peer }, world)
      world.out.write(showReport(report, full, paint))
      return report.explanation.verdict === 'refused' ? 1 : 0
    }
  )
}

function readSetting (pair: string): [name: string, value: string] {
  const [name, value] = splitPair('--set', pair, '=')
  if (!variables.has(name)) throw new BadUsage(unknownName('setting', name, [...variables.keys()]))
  return [name, value]
}

async function readSource (source: string | undefined, { readFile, input }: ExplainWorld): Promise<Capture> {
  if (source === undefined || source === '-') return readCapture(await readInput(input))
  const file = tryRead(source, readFile)
  if (file === undefined && source.startsWith('ey')) {
    throw new BadUsage("A token alone is no request. Give all of it: curl https://... -H 'Authorization: Bearer ...'")
  }
  if (file === undefined) throw new BadUsage(`The file ${source} does not exist or cannot be read.`)
  return readCapture(file)
}

function tryRead (file: string, readFile: SettingsSources['readFile']): string | undefined {
  try {
    return readFile(file)
  } catch {
    return undefined
  }
}

const MAX_BYTES = 64 * 1024 * 1024

/** Reads to the end, but only so much. @throws BadUsage */
export async function readInput (stream: AsyncIterable<Buffer>): Promise<string> {
  const text = await readAtMost(stream, MAX_BYTES)
  if (text === undefined) throw new BadUsage('That is more than 64 MiB. Save only the one request.')
  return text
}
