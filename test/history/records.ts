/**
 * What the records of revocations promise, as a model that recorded histories are checked against. What was said
 * about a name merges by maximum, whatever the order. It holds at every instance from a second after the
 * acknowledgement until its end, and for two seconds more at most. An instance may say that it does not know (503)
 * while it has a reason.
 */

/** Milliseconds of one clock that never leaps. */
export type Span = readonly [start: number, end: number]

/** Something that a sender has said about a name. */
export interface Word {
  says: 'ended' | 'logout' | 'cutoff' | 'blocked' | 'enabled' | 'undo'
  /** As its sender dates it, or within these if the service dates it. */
  moment: Span
  /** From the request until its answer. */
  time: Span
  /** `unknown`: there was no acknowledgement, so it may hold, now or later, or never. */
  outcome: 'acknowledged' | 'unknown'
}

/** How long words about an issuer are kept: by the longest retention of the services that know it. Milliseconds. */
export type Life = readonly [least: number, most: number]

/** Unix seconds. */
export interface Probe {
  iat: number
  authTime?: number
}

export interface Call {
  name: string
  place: string
  probe: Probe
  time: Span
  /** `unknown`: the instance does not know. `none`: no answer, or one that says nothing about revocations. */
  outcome: 'passed' | 'revoked' | 'unknown' | 'none'
}

export interface Verdict {
  mustRefuse: boolean
  mayRefuse: boolean
}

/** What is over may be refused for so long. */
const OVER_MS = 2000
/** What was not acknowledged may be stored so long after that. */
const STRAY_MS = 5000
/** The tolerance is added to what another sender says, and an `iat` is a whole second. */
const ADDED_MS = 3000

const lastMs = (word: Word, [, most]: Life) =>
  Math.max(word.time[1] + (word.outcome === 'unknown' ? STRAY_MS : 0), word.moment[1]) + most + OVER_MS
const leastMs = ({ time, moment }: Word, [least]: Life) => Math.max(time[0], moment[0]) + least

/** Whether it fits a token at all, if its moment is this. */
function fits ({ says }: Word, { iat, authTime }: Probe, momentMs: number) {
  if (says === 'ended') return true
  if (says === 'logout' && authTime !== undefined && authTime * 1000 <= momentMs) return true
  return (says === 'logout' || says === 'cutoff') && iat * 1000 <= momentMs
}

/** Whether a word may have changed nothing, because of an earlier one. */
const repeats = (word: Word, other: Word, life: Life) =>
  (other.says === word.says || (other.says === 'logout' && word.says === 'cutoff')) &&
  other.time[0] <= word.time[0] && word.time[0] < lastMs(other, life) && other.moment[1] >= word.moment[0]

/**
 * What an instance must and may answer.
 * @param words all that was said about the name
 * @param hasHeard whether the instance must know what was acknowledged at this moment
 */
export function judge (
  words: readonly Word[],
  life: Life,
  { probe, time: [start, end] }: Pick<Call, 'probe' | 'time'>,
  hasHeard: (ackMs: number) => boolean
): Verdict {
  const isAcknowledged = ({ outcome }: Word) => outcome === 'acknowledged'
  const undos = words.filter(({ says }) => says === 'undo')
  const begun = words.filter(({ says, time }) => says !== 'undo' && time[0] < end)
  const possible = begun.filter(word =>
    !undos.some(undo =>
      isAcknowledged(undo) && isAcknowledged(word) && hasHeard(undo.time[1]) && word.time[1] < undo.time[0]
    )
  )
  const sure = begun.filter(word =>
    isAcknowledged(word) && hasHeard(word.time[1]) &&
    !undos.some(undo => undo.time[0] < end && word.time[0] < undo.time[1])
  )
  // What changes nothing is not stored again: what it repeats holds, for as long as that lives.
  const untilMs = (word: Word) =>
    Math.min(
      ...possible.filter(other => other === word || repeats(word, other, life)).map(other => leastMs(other, life))
    )
  const isBlocked = (blocks: readonly Word[], enables: readonly Word[], isSure: boolean) =>
    blocks.some(block =>
      block.says === 'blocked' && !enables.some(enable =>
        enable.says === 'enabled' && (isSure
          ? enable.moment[1] > block.moment[0]
          // One that is over is forgotten, and an old block that is repeated then holds. Nor before its moment.
          : enable.moment[0] > block.moment[1] && enable.moment[0] <= start && block.time[0] < leastMs(enable, life))
      )
    )
  return {
    mustRefuse: isBlocked(sure, possible, true) ||
      sure.some(word =>
        fits(word, probe, Math.min(word.moment[0], start)) && end < untilMs(word)
      ),
    mayRefuse: isBlocked(possible, sure, false) ||
      possible.some(word => fits(word, probe, word.moment[1] + ADDED_MS) && start < lastMs(word, life))
  }
}

/** When nothing about this name holds any more, but for a block. */
export const overMs = (words: readonly Word[], life: Life): number =>
  Math.max(0, ...words.filter(({ says }) => says !== 'undo').map(word => lastMs(word, life)))
