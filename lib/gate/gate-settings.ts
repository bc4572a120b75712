import { isJsonObject } from '../jose/jws.ts'
import { nameThatWasMeant } from '../suggestion.ts'
import { quoteSetting } from '../printable.ts'
import type { GateOptions } from './gate-options.ts'
import { parseClaimNames } from './identity-headers.ts'
import type { ForwardedClaim } from './identity-headers.ts'
import { parseRule } from './rule.ts'
import { findRuleConflicts } from './rule-conflicts.ts'
import type { GateRule } from './rule.ts'
import { parseUpstream } from '../upstream/origin.ts'

/** What the section `gate` of the configuration says. */
export interface GateSettings {
  /** Origin of the upstream, without a slash at the end. Undefined if the gate is only asked by proxies. */
  readonly upstream: string | undefined
  readonly rules: readonly GateRule[]
  /** Seconds for which the upstream may be silent: before the first byte of its answer, and between two. */
  readonly timeoutSeconds: number
  /** Bytes that the body of a request may have. Undefined means any number. */
  readonly bodyLimit: number | undefined
  /** The claims that the upstream gets, each with its header. */
  readonly claims: readonly ForwardedClaim[]
  /** Whether the upstream gets the lines `Authorization` and `DPoP` of the client. */
  readonly passCredentials: boolean
  /** Path of the private key that signs statements. Undefined if nothing is signed. */
  readonly statementKey: string | undefined
  /** The `aud` of statements if a proxy asks. */
  readonly statementAudience: string | undefined
  /** The path before `/health`, `/metrics` and `/docs`. Empty, or plain segments, each after a slash. */
  readonly ownPrefix: string
  /** The port of Envoy's gRPC service. Undefined if there is none. */
  readonly grpcPort: number | undefined
}

export interface ParsedGate {
  readonly settings: GateSettings
  /** One line for each thing that is wrong. If there is one, the settings must not be used. */
  readonly problems: readonly string[]
}

/** Reads one member, or tells what is allowed. */
type Parse<Value> = (given: unknown) => Value | undefined

const DEFAULT_TIMEOUT_SECONDS = 30
const MAX_TIMEOUT_SECONDS = 86_400
/** The own paths that `ownPrefix` moves. */
export const MOVABLE_PATHS: readonly string[] = ['/health', '/metrics', '/docs']
/** The own paths that stay where their readers look for them. */
const FIXED_PATHS: readonly string[] = ['/.well-known/oauth-protected-resource', '/.well-known/holdfast-jwks.json', '/verify', '/revocation']

const MEMBERS = ['upstream', 'rules', 'timeoutSeconds', 'bodyLimit', 'claims', 'passCredentials', 'statementKey', 'statementAudience', 'ownPrefix', 'grpcPort'] as const satisfies ReadonlyArray<keyof GateOptions>

/** The rules of an upstream without rules. */
const ANY_TOKEN_EVERYWHERE = [{ path: '/*' }]

/**
 * Reads the section `gate`. It never throws. Each problem names the path of the part, such as `gate.rules[1].path`, and its place.
 * @param places where the parts are, in words, by their paths
 * @param upstreamBeside an upstream that is given beside the section, and takes the place of its `upstream`. Then the section may be
 * undefined, and without `rules` any valid token passes for every path. Whether it is well-formed is judged elsewhere.
 */
export function parseGate (given: unknown, places: ReadonlyMap<string, string> = new Map(), upstreamBeside?: unknown): ParsedGate {
  const problems: string[] = []
  const tell = (path: string, problem: string): void => {
    const place = places.get(path)
    problems.push(`${place === undefined ? '' : `${place}: `}${path}${problem}`)
  }
  const section = given ?? {}
  const members = isJsonObject(section) ? section : {}
  if (members !== section) tell('gate', ` is ${quoteSetting(given)}; allowed: a section with members such as upstream and rules`)
  for (const name of Object.keys(members)) {
    if ((MEMBERS as readonly string[]).includes(name)) continue
    const meant = nameThatWasMeant(name, MEMBERS)
    tell(`gate.${name}`, ` is unknown; ${meant === undefined ? `allowed: ${MEMBERS.join(', ')}` : `did you mean gate.${meant}?`}`)
  }

  function read<Value, Unset> (name: typeof MEMBERS[number], unset: Unset, allowed: string, parse: Parse<Value>): Value | Unset {
    if (members[name] === undefined) return unset
    const value = parse(members[name])
    if (value !== undefined) return value
    tell(`gate.${name}`, ` is ${quoteSetting(members[name])}; allowed: ${allowed}`)
    return unset
  }

  const inFile = read('upstream', undefined, 'http or https URL of a host, with a port or without, and nothing more', parseUpstream)
  const hasUpstream = members.upstream !== undefined || upstreamBeside !== undefined
  const settings: GateSettings = {
    upstream: parseUpstream(upstreamBeside) ?? inFile,
    rules: readRules(),
    timeoutSeconds: read('timeoutSeconds', DEFAULT_TIMEOUT_SECONDS, `1 to ${MAX_TIMEOUT_SECONDS}`, integerUpTo(1, MAX_TIMEOUT_SECONDS)),
    bodyLimit: read('bodyLimit', undefined, 'a whole number of bytes', integerUpTo(0, Number.MAX_SAFE_INTEGER)),
    claims: read('claims', [], 'a list of claims, or a map from the end of a header name (letters, digits and -) to a claim; no two of them may share a header', parseClaimNames),
    passCredentials: read('passCredentials', false, 'true, false', given => typeof given === 'boolean' ? given : undefined),
    statementKey: read('statementKey', undefined, 'path of a file with a private key (PKCS#8 in PEM form, EC P-256)', parseText),
    statementAudience: read('statementAudience', undefined, 'any non-empty string', parseText),
    ownPrefix: read('ownPrefix', '', 'a path of plain segments, such as /-', given => typeof given === 'string' && /^(?:\/[A-Za-z0-9_~-]+)+$/.test(given) ? given : undefined),
    grpcPort: read('grpcPort', undefined, '0 to 65535', integerUpTo(0, 65_535))
  }
  if (settings.statementKey !== undefined && settings.upstream === undefined && settings.statementAudience === undefined) {
    tell('gate.statementKey', ` is ${quoteSetting(settings.statementKey)}, which needs gate.statementAudience (or gate.upstream), because each statement names its reader`)
  }
  return { settings, problems }

  function readRules (): readonly GateRule[] {
    const list = members.rules ?? (upstreamBeside === undefined ? [] : ANY_TOKEN_EVERYWHERE)
    if (!Array.isArray(list)) {
      tell('gate.rules', ` is ${quoteSetting(list)}; allowed: a list of entries such as { path: /orders/*, scope: read:orders }`)
      return []
    }
    const rules = list.map((entry, index) => {
      const path = `gate.rules[${index}]`
      const rule = parseRule(entry, (member, problem) => tell(member === undefined ? path : `${path}.${member}`, problem))
      return rule && { index, rule }
    }).filter(rule => rule !== undefined)
    const ownPaths = hasUpstream ? ownPathsOf(typeof members.ownPrefix === 'string' ? members.ownPrefix : '') : []
    for (const { index, problem } of findRuleConflicts(rules, ownPaths, nameOfRule)) tell(`gate.rules[${index}]`, problem)
    return rules.map(({ rule }) => rule)
  }

  function nameOfRule (index: number): string {
    const path = `gate.rules[${index}]`
    return places.has(path) ? `${path} (${places.get(path)})` : path
  }
}

/** The paths that the service answers itself. What is under them never reaches the upstream. */
export function ownPathsOf (ownPrefix: string): readonly string[] {
  return [...MOVABLE_PATHS.map(path => ownPrefix + path), ...FIXED_PATHS]
}

function parseText (given: unknown): string | undefined {
  const text = typeof given === 'number' ? String(given) : given
  return typeof text === 'string' && text !== '' ? text : undefined
}

function integerUpTo (least: number, most: number): Parse<number> {
  return given => {
    const number = (typeof given === 'string' && /^\d{1,15}$/.test(given) ? Number(given) : given) as number
    return Number.isSafeInteger(number) && number >= least && number <= most ? number : undefined
  }
}
