import type { ProviderAnswer, ProviderSession } from '../lib/guard/provider/transport.ts'
import { fault, fine, warning, type Finding } from './findings.ts'

/**
 * A session that adds to `offsets` by how much the clock of each answer differs from that of this machine.
 * @param nowMs milliseconds since the epoch
 */
export function timedSession (session: ProviderSession, offsets: number[], nowMs: () => number): ProviderSession {
  return {
    close: session.close,
    async send (url) {
      const sentMs = nowMs()
      const answer = await session.send(url)
      offsets.push(...clockOffset(answer, sentMs, nowMs()))
      return answer
    }
  }
}

/**
 * By how many seconds the clock of the provider is surely ahead (or, below zero, behind), whatever the way took. `Date`
 * has whole seconds, and an answer out of a cache is as old as its `Age`.
 */
function clockOffset ({ headers = {} }: ProviderAnswer, sentMs: number, receivedMs: number): number[] {
  const age = headers['age'] === undefined ? 0 : Number(headers['age'])
  const madeAt = Date.parse(String(headers['date'])) / 1000 + age
  if (Number.isNaN(madeAt)) return []
  const ahead = madeAt - receivedMs / 1000
  const behind = sentMs / 1000 - (madeAt + (age > 0 ? 2 : 1))
  return [ahead > 0 ? ahead : behind > 0 ? -behind : 0]
}

export function judgeClock (offsets: readonly number[], tolerance: number): Finding[] {
  if (offsets.length === 0) return [warning('No answer of the provider has a date, so the clocks were not compared.')]
  // A cache may be wrong about one answer; a clock is wrong about all of them.
  const nearest = offsets.toSorted((a, b) => Math.abs(a) - Math.abs(b))[0]!
  if (Math.abs(nearest) < 1) return [fine('Its clock and the one of this machine agree.')]
  const says =
    `Its clock is ${Math.ceil(Math.abs(nearest))} s ${nearest > 0 ? 'ahead of' : 'behind'} the one of this ` +
    `machine; IDP_CLOCK_TOLERANCE_SECONDS is ${tolerance}.`
  if (Math.abs(nearest) <= tolerance) return [fine(says)]
  return [
    fault(
      says,
      'Set the clock of this machine by NTP (timedatectl status). If it is right, the one of the provider is ' +
        'not: until that is set, raise IDP_CLOCK_TOLERANCE_SECONDS.'
    )
  ]
}
