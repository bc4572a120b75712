/** Why a shared replay store cannot be used: words for readiness, logs and metrics. docs/operating.md tells what to do about each. */
export type RedisFault =
  | 'unreachable' | 'timeout' | 'tls' | 'auth' | 'not_redis' | 'readonly' | 'oom' | 'evicts' | 'loading' | 'cluster' | 'database' | 'max_clients' | 'refused_write'

/** Beginnings of a server's error replies. */
const REPLIES: ReadonlyArray<readonly [string, RedisFault]> = [
  ['READONLY', 'readonly'],
  ['OOM', 'oom'],
  ['WRONGPASS', 'auth'],
  ['NOAUTH', 'auth'],
  ['NOPERM', 'auth'],
  ['ERR invalid password', 'auth'],
  ['ERR AUTH', 'auth'],
  ['LOADING', 'loading'],
  ['MASTERDOWN', 'readonly'],
  ['CLUSTERDOWN', 'cluster'],
  ['MOVED', 'cluster'],
  ['ASK', 'cluster'],
  ['CROSSSLOT', 'cluster'],
  ['ERR This instance has cluster support disabled', 'cluster'],
  ['ERR DB index', 'database'],
  ['ERR SELECT is not allowed', 'database'],
  ['ERR max number of clients', 'max_clients'],
  ['All sentinels are unreachable', 'unreachable'],
  ['Socket timeout', 'timeout']
]

const TLS_CODES = /^(?:ERR_TLS|ERR_SSL|ERR_OSSL|EPROTO|CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|HOSTNAME_MISMATCH|INVALID_CA)/

interface ClientError extends Error {
  readonly code?: string
  /** Of the error that says that all nodes of a cluster failed. */
  readonly lastNodeError?: ClientError
}

/**
 * Names the fault behind an error of the client. The error's own text may hold what was sent, and is not passed on.
 *
 * @returns null where the error says no more than that there is no connection.
 */
export function faultOf (error: ClientError): RedisFault | null {
  if (error.lastNodeError) return faultOf(error.lastNodeError)
  const { message, code, name } = error
  for (const [start, fault] of REPLIES) {
    if (message.startsWith(start)) return fault
  }
  if (message.startsWith('Unknown RESP type')) return 'not_redis'
  if (name === 'ReplyError') return 'refused_write'
  if (code === undefined) return null
  if (code === 'ETIMEDOUT') return 'timeout'
  return TLS_CODES.test(code) ? 'tls' : 'unreachable'
}

/** What one server said to `INFO memory`. */
export interface MemoryAnswer {
  readonly error?: Error | null | undefined
  readonly info?: unknown
}

/** Whether records are safe from eviction: `unknown` where a server does not say. */
export type EvictionPolicy = 'keeps' | 'evicts' | 'unknown'

/**
 * Whether any of the servers may forget a record to stay below its limit of memory. One that does not answer, or
 * cannot be used at all, is left out: it records nothing either.
 *
 * @returns null where none is left: each answer then has an error.
 */
export function policyOf (answers: readonly MemoryAnswer[]): EvictionPolicy | null {
  const policies = answers.filter(({ error }) => !error || isSilence(error)).map(({ error, info }) => error ? 'unknown' : readPolicy(String(info)))
  return (['evicts', 'unknown', 'keeps'] as const).find(policy => policies.includes(policy)) ?? null
}

/** Whether a server that works will not say: the user may not ask, or the command has another name or none. */
function isSilence (error: Error): boolean {
  return error.name === 'ReplyError' && (error.message.startsWith('NOPERM') || faultOf(error) === 'refused_write')
}

function readPolicy (info: string): EvictionPolicy {
  const valueOf = (name: string): string | undefined => info.split(`\n${name}:`, 2)[1]?.split('\r', 1)[0]
  const policy = valueOf('maxmemory_policy')
  // Without a limit there is nothing to stay below. A limit may be set later, so a server is asked again and again.
  if (policy === 'noeviction' || valueOf('maxmemory') === '0') return 'keeps'
  return policy === undefined ? 'unknown' : 'evicts'
}
