import type { Report } from './run.ts'

const MOST_SHOWN = 30

/** What a run has shown, for people. */
export function show (seed: number, report: Report): string {
  const { requests, good, excused, hostile, copies, acceptedProofs, violations, rotations, faults, vitals } = report
  const times = [...faults.values()].reduce((sum, number) => sum + number, 0)
  return [
    `seed ${seed}: ${requests} requests, ${times} faults of ${faults.size} kinds, keys rotated ${rotations} times`,
    `good ${good}, of them refused within a fault that excuses it ${excused}; hostile ${hostile}; copies ` +
    `${copies}; proofs accepted ${acceptedProofs}`,
    ...[...faults].sort(([a], [b]) => a.localeCompare(b)).map(([name, number]) => `  ${number} x ${name}`),
    ...vitals.map(({ name, before, after }) =>
      `${name}: ${
        Object.keys(before).map(sign =>
          `${sign} ${before[sign as keyof typeof before]} -> ${after[sign as keyof typeof after]}`
        ).join(', ')
      }`
    ),
    ...violations.slice(0, MOST_SHOWN),
    ...[...countKinds(violations)].map(([kind, number]) => `${number} x ${kind}`),
    violations.length === 0 ? 'all was as it must be' : `${violations.length} violations`
  ].join('\n')
}

/** By the words before what is particular. */
function countKinds (violations: readonly string[]): Map<string, number> {
  const numbers = new Map<string, number>()
  for (const violation of violations) {
    const [kind] = violation.split(':', 1) as [string]
    numbers.set(kind, (numbers.get(kind) ?? 0) + 1)
  }
  return numbers
}
