/** What a request needs on its way. */
export type Part = 'nginx' | 'instance' | 'redis' | 'introspection' | 'clock' | 'gate' | 'upstream'

/** A request, and what came of it. */
export interface Entry {
  kind: string
  /** It must be accepted, must never be, or is one of several copies. */
  role: 'good' | 'hostile' | 'copy'
  needs: readonly Part[]
  startMs: number
  endMs: number
  /** `200`, `503`, `401 invalid_token`, or `broken` if the connection failed. */
  outcome: string
  /** Of its proof. */
  jti?: string
}

/**
 * A fault from its beginning until all has recovered, and the outcomes that it excuses for requests that need this
 * part.
 */
export interface Window {
  fault: string
  part: Part
  excuses: readonly string[]
  startMs: number
  endMs: number
}

interface Ledger {
  entries: readonly Entry[]
  windows: readonly Window[]
  /** The jti of each proof that a server has answered with 200, written down by that server. */
  accepted: readonly string[]
  /** The ids of the requests that have reached the upstream, and the kind of each. */
  arrived: ReadonlyArray<{ kind: string, id: string }>
}

export interface Sums {
  requests: number
  good: number
  excused: number
  hostile: number
  copies: number
  acceptedProofs: number
  violations: readonly string[]
}

const overlaps = (entry: Entry, window: Window) =>
  entry.startMs <= window.endMs && window.startMs <= entry.endMs

/** @returns the fault that excuses what came of a good request, if there is one */
function excuse (entry: Entry, windows: readonly Window[]) {
  return windows.find(window =>
    entry.needs.includes(window.part) && window.excuses.includes(entry.outcome) && overlaps(entry, window)
  )
}

function findRepeated (ids: readonly string[]) {
  const seen = new Set<string>()
  return ids.filter(id => seen.size === seen.add(id).size)
}

/** Whether all was as it must be. Times of one clock that never leaps. */
export function sumUp ({ entries, windows, accepted, arrived }: Ledger): Sums {
  const violations: string[] = []
  const report = ({ kind, outcome, startMs, endMs }: Entry, what: string) => {
    violations.push(`${what}: ${kind}, ${outcome}, ${Math.round(startMs)} to ${Math.round(endMs)} ms`)
  }
  let excused = 0
  const counted = new Set(accepted)
  for (const entry of entries) {
    const { role, outcome, jti } = entry
    if (outcome.startsWith('500')) report(entry, 'a 500')
    else if (role === 'hostile' && outcome.startsWith('2')) report(entry, 'a hostile request has passed')
    else if (role === 'good' && outcome !== '200' && excuse(entry, windows)) excused++
    else if (role === 'good' && outcome !== '200') report(entry, 'a good request was refused')
    // Without this, a server that counts nothing would look like one that accepts nothing twice.
    if (outcome === '200' && jti !== undefined && !counted.has(jti)) report(entry, 'no server has counted it')
  }
  for (const jti of findRepeated(accepted)) violations.push(`a proof was accepted twice: ${jti}`)
  for (const id of findRepeated(arrived.map(({ id }) => id))) {
    violations.push(`a request has reached the upstream twice: ${id}`)
  }
  for (const { kind } of arrived) if (kind === 'hostile') violations.push('a hostile request has reached the upstream')
  const count = (role: Entry['role']) => entries.filter(entry => entry.role === role).length
  return {
    requests: entries.length,
    good: count('good'),
    excused,
    hostile: count('hostile'),
    copies: count('copy'),
    acceptedProofs: accepted.length,
    violations
  }
}
