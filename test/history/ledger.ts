import type { Book, Name } from './actors.ts'
import type { Scene, Trouble } from './faults.ts'
import { judge, overMs, type Call, type Life, type Span, type Word } from './records.ts'
import type { Place } from './world.ts'

/** Every instance refuses within that. */
const LATEST_MS = 1000

const overlapMs = ([from, to]: Span, [start, end]: Span) =>
  Math.max(0, Math.min(to, end) - Math.max(from, start))
const touches = (one: Span, other: Span) => one[0] <= other[1] && other[0] <= one[1]

/** Milliseconds of a time in which an instance could hear. The spans may overlap. */
function hearingMs (time: Span, deaf: readonly Span[]) {
  let ms = 0
  let at = time[0]
  for (const [from, to] of [...deaf].filter(span => touches(span, time)).sort(([a], [b]) => a - b)) {
    if (from > at) ms += from - at
    at = Math.max(at, Math.min(to, time[1]))
  }
  return ms + Math.max(0, time[1] - at)
}

/** Whether some instance knew it while the store lost it, and restored it. */
function survives (places: readonly Place[], word: Name['words'][number], { span, lost }: Trouble) {
  if (lost === undefined || word.time[0] > lost[1] || word.time[1] < lost[0]) return true
  const [, lostMs] = lost
  return places.some(({ name, lives }) =>
    lives.some(([readyMs, endMs]) => {
      const knewMs = Math.max(readyMs, word.time[1] + (name === word.place ? 0 : LATEST_MS))
      return knewMs <= lostMs && endMs > span[1]
    })
  )
}

/** What was acknowledged may be gone if all who knew it died while the store lost it. */
function wordsOf ({ world }: Book, name: Name, { troubles, pauses }: Scene): { words: Word[], life: Life } {
  const places = world.places.filter(({ kind }) => kind.issuers.includes(name.issuer))
  const words = name.words.map(word =>
    troubles.every(trouble => survives(places, word, trouble)) ? word : { ...word, outcome: 'unknown' as const }
  )
  const [least, most] = world.lifeOf(name.issuer)
  // The time in which no instance ran does not count.
  return { words, life: [least, most + pauses.reduce((sum, [start, end]) => sum + end - start, 0)] }
}

/** All that was not as it must be. */
export function findViolations (scene: Scene): string[] {
  const { book, troubles } = scene
  const violations: string[] = []
  const start = book.calls[0]?.time[0] ?? 0
  const stamp = ([from, to]: Span) => `${from - start}-${to - start}`
  const known = new Map(book.names.map(name => [name.id, wordsOf(book, name, scene)]))
  const places = new Map(book.world.places.map(place => [place.name, place]))
  for (const call of book.calls) {
    const place = places.get(call.place)!
    const stops = place.absences.filter(({ isStop }) => isStop).map(({ span }) => span)
    const excused = [...troubles, ...place.absences].map(({ span }) => span)
    // From when it is ready, it knows what the others do: also what one that is stopped has yet to restore.
    const deaf = [
      ...place.absences.map(({ span }) => span),
      ...troubles.map(({ span: [start], readyMs }): Span => [start, readyMs.get(place.name) ?? start])
    ]
    const hasHeard = (ackMs: number) => {
      const time: Span = [ackMs, call.time[0]]
      const stoppedMs = stops.reduce((sum, span) => sum + overlapMs(span, time), 0)
      return hearingMs(time, deaf) > LATEST_MS ||
        time[1] - time[0] - stoppedMs > place.kind.staleSeconds * 1000 + 2 * LATEST_MS
    }
    const { words, life } = known.get(call.name)!
    if (call.outcome === 'unknown') {
      if (!excused.some(span => touches(span, call.time))) {
        const others = book.world.places.flatMap(({ name, absences }) =>
          absences.map(({ span, isStop }) => ({ fault: `${name} ${isStop ? 'stopped' : 'starting'}`, span }))
        )
        violations.push(`503 without a reason: ${call.place} at ${stamp(call.time)}; ${around([...troubles, ...others], call)}`)
      }
      continue
    }
    if (call.outcome === 'none') continue
    const { mustRefuse, mayRefuse } = judge(words, life, call, hasHeard)
    if (call.outcome === 'passed' ? mustRefuse : !mayRefuse) {
      violations.push(`${call.outcome === 'passed' ? 'it passed' : 'it was refused'}: ${describe(call, words, stamp)}`)
    }
  }
  for (const { status, place, time } of book.refused) {
    const deaf = [...troubles, ...places.get(place)!.absences]
    // One that took so long found a busy machine.
    if (status === 503 && time[1] - time[0] < LATEST_MS && !deaf.some(({ span }) => touches(span, time))) {
      violations.push(`an event was refused: ${place} at ${stamp(time)}`)
    }
  }
  return violations

  function describe (call: Call, words: readonly Word[], stamp: (span: Span) => string) {
    const { iat, authTime } = call.probe
    return `${call.name} (issuer ${book.names.find(({ id }) => id === call.name)!.issuer}) at ${call.place}, ` +
      `${stamp(call.time)}, iat ${iat * 1000 - start}${authTime ? `, auth_time ${authTime * 1000 - start}` : ''}; ` +
      words.map(({ says, moment, time, outcome }) =>
        `${says} of ${stamp(moment)}, ${stamp(time)}${outcome === 'unknown' ? ' unknown' : ''}`
      ).join('; ') +
      `; ${around(troubles, call)}`
  }

  function around (faults: ReadonlyArray<Pick<Trouble, 'fault' | 'span'>>, { time: [from, to] }: Call) {
    return faults.filter(({ span }) => touches(span, [from - 6000, to]))
      .map(({ fault, span }) => `${fault} ${stamp(span)}`).join(', ')
  }
}

/** How many entries an instance, or the store, must and may hold. */
export function entriesOf (scene: Scene, place: Place | undefined, nowMs: number): Span {
  const { book } = scene
  let least = 0
  let most = book.noiseUntilMs > nowMs ? book.noise + 100 : 0
  for (const name of book.names.filter(({ issuer }) => place?.kind.issuers.includes(issuer) ?? true)) {
    const { words, life } = wordsOf(book, name, scene)
    const { mustRefuse } = judge(words, life, { probe: { iat: 0, authTime: 0 }, time: [nowMs, nowMs] }, () => true)
    const isKept = words.some(({ says }) => says !== 'undo') && overMs(words, life) > nowMs
    const isBlocked = words.some(({ says }) => says === 'blocked')
    if (mustRefuse) least++
    if (isKept || isBlocked) most += 2
  }
  return [least, most]
}
