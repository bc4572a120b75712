import { faultOf } from './redis-faults.ts'

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
