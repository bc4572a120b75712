import { isTlsCode } from '../../base/tls-code.ts'

/**
 * Why a Redis cannot be used: words for readiness, logs and metrics. docs/reference/store.md says what to
 * do about each.
 */
export type RedisFault =
  | 'unreachable'
  | 'timeout'
  | 'tls'
  | 'auth'
  | 'not_redis'
  | 'readonly'
  | 'oom'
  | 'evicts'
  | 'loading'
  | 'cluster'
  | 'database'
  | 'max_clients'
  | 'refused_write'

/** The beginnings of error texts: replies of a server, and messages of the client itself. */
const BEGINNINGS: ReadonlyArray<readonly [RedisFault, RegExp]> = [
  ['readonly', /^(?:READONLY|MASTERDOWN)/],
  ['oom', /^OOM/],
  ['database', /^(?:ERR (?:DB index|SELECT is not allowed)|NOPERM .*'select')/],
  // The last two: a script may not run a command, before Redis 7.2 and since.
  [
    'auth',
    /^(?:WRONGPASS|NOAUTH|NOPERM|ERR (?:invalid password|AUTH|The user executing the script|ACL failure in script))/
  ],
  ['loading', /^LOADING/],
  ['cluster', /^(?:CLUSTERDOWN|MOVED|ASK|CROSSSLOT|ERR This instance has cluster support disabled)/],
  ['max_clients', /^ERR max number of clients/],
  // Without a last error, they were reached: the server that they named was not, which has said why.
  ['unreachable', /^All sentinels are unreachable.* Last error: /],
  ['timeout', /^Socket timeout/],
  ['not_redis', /^Unknown RESP type/]
]

interface ClientError extends Error {
  readonly code?: string
  /** The client's error for a cluster whose nodes have all failed. */
  readonly lastNodeError?: ClientError
}

/**
 * Names the fault behind an error of the client. The text of the error may hold what was sent, so it is not passed on.
 *
 * @returns null if the error only says that there is no connection
 */
export function faultOf (error: ClientError): RedisFault | null {
  if (error.lastNodeError) return faultOf(error.lastNodeError)
  const { message, code, name } = error
  const named = BEGINNINGS.find(([, beginning]) => beginning.test(message))
  if (named) return named[0]
  if (name === 'ReplyError') return 'refused_write'
  if (code === undefined) return null
  if (code === 'ETIMEDOUT') return 'timeout'
  return isTlsCode(code) ? 'tls' : 'unreachable'
}

/** The answer of one server to `INFO memory`. */
export interface MemoryAnswer {
  readonly error?: Error
  readonly info?: unknown
}

/** Whether records are safe from eviction. `unknown` if a server does not say. */
export type EvictionPolicy = 'keeps' | 'evicts' | 'unknown'

/**
 * Whether any of the servers may forget a record to stay below its memory limit. A server that does not answer or
 * cannot be used is left out: it records nothing either.
 *
 * @returns null if no server is left: each answer then has an error
 */
export function policyOf (answers: readonly MemoryAnswer[]): EvictionPolicy | null {
  const policies = answers.filter(({ error }) => !error || isSilence(error)).map(({ error, info }) =>
    error ? 'unknown' : readPolicy(String(info))
  )
  return (['evicts', 'unknown', 'keeps'] as const).find(policy => policies.includes(policy)) ?? null
}

/** Whether a working server refuses to answer: the user lacks the right, or the command was renamed or removed. */
function isSilence (error: Error): boolean {
  return error.name === 'ReplyError' && (error.message.startsWith('NOPERM') || faultOf(error) === 'refused_write')
}

function readPolicy (info: string): EvictionPolicy {
  const valueOf = (name: string) => info.split(`\n${name}:`, 2)[1]?.split('\r', 1)[0]
  const policy = valueOf('maxmemory_policy')
  // Without a memory limit the server evicts nothing. A limit may be set later, so the policy is read periodically.
  if (policy === 'noeviction' || valueOf('maxmemory') === '0') return 'keeps'
  return policy === undefined ? 'unknown' : 'evicts'
}
