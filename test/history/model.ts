/**
 * What a replay store promises, as a model that recorded histories are checked against: each id is first exactly once
 * while its record should live, for every client. A history is right if each of its operations can be put at one moment
 * between its start and its end so that the model gives the same answers (linearizability, Herlihy and Wing 1990; the
 * search is that of Wing and Gong 1993).
 */

/** Times are seconds of one clock. */
export interface Claim {
  kind: 'claim'
  id: string
  /** `unknown` is a refusal: the record may have been made, now or later, or never. */
  outcome: 'first' | 'seen' | 'unknown'
  start: number
  end: number
  /** Until when the record must live. */
  expiresAt: number
}

/** The store may have lost all records at one moment of this time: it was killed, and keeps nothing on disk. */
interface Loss {
  kind: 'loss'
  start: number
  end: number
}

export type Operation = Claim | Loss

/** A record may live longer than it must: by the seconds for late records, and rounding. */
const LONGEST_EXTRA_SECONDS = 8

interface Position {
  /** The operations that have no place yet, as bits. */
  left: bigint
  /** No operation may be placed before this moment. */
  at: number
  /** Until when the record must live. -Infinity if there is none. */
  until: number
}

/** The ids whose histories nothing explains. */
export function findViolations (operations: readonly Operation[]): string[] {
  const losses = operations.filter(operation => operation.kind === 'loss')
  const byId = new Map<string, Claim[]>()
  for (const operation of operations) {
    if (operation.kind === 'claim') byId.set(operation.id, [...byId.get(operation.id) ?? [], operation])
  }
  return [...byId].filter(([, claims]) => !isExplained([...claims, ...losses])).map(([id]) => id)
}

/** Whether the history of one id has an order that the model agrees with. */
function isExplained (operations: readonly Operation[]) {
  // Nobody waits for what may never have happened.
  const isOptional = (operation: Operation) => operation.kind === 'loss' || operation.outcome === 'unknown'
  const needed = operations.reduce((mask, operation, at) => isOptional(operation) ? mask : mask | 1n << BigInt(at), 0n)
  const tried = new Set<string>()

  function search ({ left, at, until }: Position): boolean {
    if ((left & needed) === 0n) return true
    const key = `${left} ${at} ${until}`
    if (tried.has(key)) return false
    tried.add(key)
    const remaining = operations.flatMap((operation, index) => left & 1n << BigInt(index) ? [{ operation, index }] : [])
    const latest = Math.min(
      ...remaining.filter(({ operation }) => !isOptional(operation)).map(({ operation }) => operation.end)
    )
    return remaining.some(({ operation, index }) => {
      if (operation.start > latest) return false
      const next = place(operation, Math.max(at, operation.start), until)
      return next !== undefined && search({ left: left & ~(1n << BigInt(index)), ...next })
    })
  }

  return search({ left: (1n << BigInt(operations.length)) - 1n, at: -Infinity, until: -Infinity })
}

/** What holds after an operation that is placed as early as it can be. Undefined if it cannot have given its answer. */
function place (operation: Operation, at: number, until: number) {
  if (operation.kind === 'loss') return at <= operation.end ? { at, until: -Infinity } : undefined
  const { outcome, end, expiresAt } = operation
  if (outcome === 'seen') return at <= end && at <= until + LONGEST_EXTRA_SECONDS ? { at, until } : undefined
  // It may have been made as soon as the record before it might be gone. What was refused may be made long after.
  const free = Math.max(at, until)
  return outcome === 'unknown' || free <= end ? { at: free, until: expiresAt } : undefined
}
