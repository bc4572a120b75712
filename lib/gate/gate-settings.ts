import { isJsonObject } from '../base/json.ts'
import { createWithheld, isWithheldName, OF_MESSAGE } from './headers.ts'
import { forwardedClaims, type ForwardedClaim } from './identity-headers.ts'
import { LISTS, parseRule, type GateRule } from './rule.ts'
import { tellRuleConflicts } from './rule-conflicts.ts'
import type { StatementKeySource } from './statement-keys.ts'
import { parseUpstream } from './upstream/origin.ts'

/** What the section `gate` of the configuration says. */
export interface GateSettings {
  /** Origin of the upstream, without a slash at the end, or undefined if the gate is only asked by proxies. */
  readonly upstream: string | undefined
  readonly rules: readonly GateRule[]
  /** Whether the upstream tells paths apart that differ in case, in escapes, in a suffix or in a slash at the end. */
  readonly exactPaths: boolean
  /**
   * Seconds for which the upstream may be silent: before the first byte of its answer, and between two. A rule may have
   * its own.
   */
  readonly timeoutSeconds: number
  /** Seconds for which a connection to the upstream is kept without a request. */
  readonly idleSeconds: number
  /** Seconds of silence after which a stream of events gets a comment. 0: it gets none. */
  readonly keepAliveSeconds: number
  /** Whose `Host` the upstream gets. */
  readonly host: 'client' | 'upstream'
  /** Bytes that the body of a request may have. Undefined means any number. */
  readonly bodyLimit: number | undefined
  /** The claims that the upstream gets, each with its header. */
  readonly claims: readonly ForwardedClaim[]
  /** Names of headers that no client may send to the upstream. A `*` at the end stands for any end. */
  readonly withheldHeaders: readonly string[]
  /** Whether the upstream gets the lines `Authorization` and `DPoP` of the client. */
  readonly passCredentials: boolean
  /** Where the private keys of statements are: the first signs, or undefined if nothing is signed. */
  readonly statementKey: readonly StatementKeySource[] | undefined
  /** The `aud` of statements if a proxy asks. */
  readonly statementAudience: string | undefined
  /** The path before `/health`, `/metrics` and `/docs`. Empty, or plain segments, each after a slash. */
  readonly ownPrefix: string
  /** The port of Envoy's gRPC service, or undefined if there is none. */
  readonly grpcPort: number | undefined
}

/**
 * The section after its schema has judged it: typed, and with its defaults. A part that was refused is as it was
 * written.
 */
export type GateSection = Partial<Record<keyof GateSettings, unknown>>

/** Settings with a section `gate` that its schema has judged. */
interface JudgedGate {
  /**
   * The upstream that is given beside the section and takes the place of its `upstream`. Whether it is well-formed is
   * judged elsewhere.
   */
  readonly values: { readonly gateUpstream: unknown }
  /** The section as its schema has left it. It may be anything. */
  readonly data: { readonly gate: unknown }
  /** Where parts are, in words. */
  readonly places: ReadonlyMap<string, string>
  /** Whether a part, such as `gate.rules[1]`, or a member of it has been refused. */
  isRefused (path: string): boolean
  /** Gets the path of a part and what is wrong with it. Then the settings must not be used. */
  tell (path: string, problem: string): void
}

/** The own paths that `ownPrefix` moves. */
const MOVABLE_PATHS: readonly string[] = ['/health', '/metrics', '/docs']
/** The own paths that stay where their readers look for them. */
const FIXED_PATHS: readonly string[] = [
  '/.well-known/oauth-protected-resource',
  '/.well-known/holdfast-jwks.json',
  '/verify',
  '/revocation'
]

/** The rules of an upstream beside a section without rules: any valid token passes for every path. */
const ANY_TOKEN_EVERYWHERE = [{ path: '/*' }]

/** Reads the section `gate`, and tells what is wrong with it that its schema cannot say. It never throws. */
export function parseGate (
  { values: { gateUpstream: upstreamBeside }, data, places, isRefused, tell }: JudgedGate
): GateSettings {
  const section: GateSection = isJsonObject(data.gate) ? data.gate : {}
  const ownPrefix = typeof section.ownPrefix === 'string' ? section.ownPrefix : ''
  const upstream = parseUpstream(upstreamBeside) ?? parseUpstream(section.upstream)
  // Even one that cannot be used.
  const hasUpstream = section.upstream !== undefined || upstreamBeside !== undefined
  const rulePaths = readRules()
  for (const [rule, path] of rulePaths) {
    for (const name of hasUpstream ? [] : LISTS.filter(name => rule.mcp?.[name])) {
      tell(`${path}.mcp.${name}`, ' is true, which needs gate.upstream: a proxy that asks does not show the answers')
    }
  }
  tellRuleConflicts(rulePaths, hasUpstream ? ownPathsOf(ownPrefix) : [], nameOf, tell)
  const claims = isRefused('gate.claims')
    ? []
    : forwardedClaims(section.claims as Parameters<typeof forwardedClaims>[0] | undefined ?? [])
  const headers = claims.map(({ header }) => header)
  const shared = headers.find((header, at) => headers.indexOf(header) < at)
  if (shared !== undefined) tell('gate.claims', ` has two entries for the header ${shared}`)
  if (!isRefused('gate.withheldHeaders')) {
    const isWithheld = createWithheld((section.withheldHeaders ?? []) as readonly string[])
    const needed = [...OF_MESSAGE].find(name => !isWithheldName(name) && isWithheld(name))
    if (needed !== undefined) {
      tell('gate.withheldHeaders', ` names ${needed}, which the upstream needs to read the request`)
    }
  }
  return { ...section as GateSettings, upstream, rules: [...rulePaths.keys()], claims, ownPrefix }

  /** The rules that could be read, each with its path in the settings. */
  function readRules (): ReadonlyMap<GateRule, string> {
    const paths = new Map<GateRule, string>()
    if (isRefused('gate.rules')) return paths
    const list = section.rules ?? (upstreamBeside === undefined ? [] : ANY_TOKEN_EVERYWHERE)
    for (const [index, entry] of (list as readonly unknown[]).entries()) {
      const path = `gate.rules[${index}]`
      const rule = parseRule(entry, {
        isRefused: member => isRefused(member === undefined ? path : `${path}.${member}`),
        tell: (member, problem) => tell(member === undefined ? path : `${path}.${member}`, problem)
      })
      if (rule) paths.set(rule, path)
    }
    return paths
  }

  function nameOf (path: string) {
    const place = places.get(path)
    return place === undefined ? path : `${path} (${place})`
  }
}

/** The paths that the service answers itself. What is under them never reaches the upstream. */
export function ownPathsOf (ownPrefix: string): readonly string[] {
  return [...MOVABLE_PATHS.map(path => ownPrefix + path), ...FIXED_PATHS]
}
