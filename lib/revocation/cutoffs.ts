import type { LogPosition, RevocationEffect, RevocationEntry } from './log.ts'
import type { RevocationFacts } from './target.ts'

/** What refuses a token, for people. */
export interface Revocation {
  readonly event: string
  readonly source: string
  /** Unix seconds. */
  readonly at: number
}

export interface CutoffsOptions {
  /** Maximum number of keys. */
  readonly max: number
  /** Seconds for which a cutoff is kept after it was recorded. A block is kept until it is lifted. */
  readonly retentionSeconds: number
  /** Unix seconds. */
  readonly now: () => number
}

/**
 * What was merged of the entries for a key, with the event that is shown. Moments merge by maximum, so repeats and any order are harmless.
 * There may be a million of them, and each object in one costs memory, and time in each large collection of garbage. A literal that began
 * with a spread would take twice the memory.
 */
interface Merged extends Revocation {
  readonly sender: string
  readonly standing: RevocationEntry['standing']
  recordedAt: number
  /** Of the newest entry. */
  position: LogPosition
}

interface Mark extends Merged {
  /** Whole seconds, as times of tokens are compared. */
  cutoff: number
  login: number
  ended: boolean
}

interface Block extends Merged {
  blockedAt: number
  enabledAt: number
}

/** Before any moment. A small integer needs no object of its own, as -Infinity does. */
const NEVER = -1

export type Cutoffs = ReturnType<typeof createCutoffs>

/**
 * The view of one process of what has been revoked. It never forgets a cutoff that a live token could meet: the log refuses an event
 * for which there is no room, and entries of other instances are applied even beyond the maximum.
 */
export function createCutoffs ({ max, retentionSeconds, now }: CutoffsOptions) {
  // Maps keep the order of insertion, which is that of `recordedAt` but for entries that a store got back.
  const marks = new Map<string, Mark>()
  const blocks = new Map<string, Block>()
  const undone = new Map<string, Pick<Merged, 'recordedAt' | 'position'>>()
  let version = 0
  /** Many events in a row have the same texts, which are then kept once. */
  let texts = { event: '', source: '', sender: '', standing: 'other' as RevocationEntry['standing'] }

  function isLive ({ recordedAt }: { readonly recordedAt: number }): boolean {
    return now() < recordedAt + retentionSeconds
  }

  function forgetOld (map: Map<string, { readonly recordedAt: number }>): void {
    for (const [key, entry] of map) {
      if (isLive(entry)) return
      map.delete(key)
    }
  }

  /** A block that was lifted is kept as long as a cutoff, for events that come late. */
  function forgetLifted (): void {
    for (const [key, block] of blocks) if (block.enabledAt > block.blockedAt && !isLive(block)) blocks.delete(key)
  }

  function shownBy ({ event, source, sender, standing, at }: RevocationEntry): Revocation & Pick<Merged, 'sender' | 'standing'> {
    if (event !== texts.event || source !== texts.source || sender !== texts.sender || standing !== texts.standing) texts = { event, source, sender, standing }
    return { ...texts, at }
  }

  function applyBlock (entry: RevocationEntry, position: LogPosition): void {
    const { key, effect, at, recordedAt } = entry
    const block = blocks.get(key) ?? { blockedAt: NEVER, enabledAt: NEVER, ...shownBy(entry), recordedAt, position }
    if (effect === 'enable') block.enabledAt = Math.max(block.enabledAt, at)
    else if (at >= block.blockedAt) Object.assign(block, { blockedAt: at }, shownBy(entry))
    renew(block, entry, position)
    blocks.set(key, block)
  }

  function applyMark (entry: RevocationEntry, position: LogPosition): void {
    const { key, effect, at, recordedAt } = entry
    if (!isLive(entry)) return
    const mark = marks.get(key) ?? { cutoff: NEVER, login: NEVER, ended: false, ...shownBy(entry), recordedAt, position }
    if (at >= mark.at) Object.assign(mark, shownBy(entry))
    if (effect === 'end') mark.ended = true
    else mark.cutoff = Math.max(mark.cutoff, Math.floor(at))
    if (effect === 'login') mark.login = Math.max(mark.login, Math.floor(at))
    renew(mark, entry, position)
    // To the end: the front is forgotten first.
    marks.delete(key)
    marks.set(key, mark)
  }

  function applyUndo ({ key, recordedAt }: RevocationEntry, position: LogPosition): void {
    undone.delete(key)
    undone.set(key, { position, recordedAt })
    for (const map of [marks, blocks]) if (map.has(key) && map.get(key)!.position <= position) map.delete(key)
  }

  return {
    /** Applies an entry. An entry may come again, and in any order. */
    apply (entry: RevocationEntry, position: LogPosition): void {
      const undo = undone.get(entry.key)
      if (undo && position <= undo.position) return
      forgetOld(marks)
      forgetOld(undone)
      if (entry.effect === 'undo') applyUndo(entry, position)
      else if (entry.effect === 'block' || entry.effect === 'enable') applyBlock(entry, position)
      else applyMark(entry, position)
      version++
    },
    /** Changes with each entry. A token that was not revoked at one version is not revoked for as long as it stays the same. */
    version: (): number => version,
    /** Whether entries for these keys fit. */
    hasRoom (keys: readonly string[]): boolean {
      forgetOld(marks)
      const added = new Set(keys.filter(key => !marks.has(key) && !blocks.has(key))).size
      const isRoom = (): boolean => marks.size + blocks.size + added <= max
      if (!isRoom()) forgetLifted()
      return isRoom()
    },
    /** What refuses a token. Undefined if nothing does. Times of tokens are compared in whole seconds. */
    revocationOf ({ keys, issuedAt, loginAt }: RevocationFacts): Revocation | undefined {
      if (marks.size === 0 && blocks.size === 0) return undefined
      for (const key of keys) {
        const block = blocks.get(key)
        if (block && block.blockedAt >= block.enabledAt && block.blockedAt !== NEVER) return shownOf(block)
        const mark = marks.get(key)
        if (!mark || !isLive(mark)) continue
        // Without `iat` nothing says that the token is newer.
        const isIssuedBefore = mark.cutoff !== NEVER && (issuedAt === undefined || Math.floor(issuedAt) <= mark.cutoff)
        const isOfLoginBefore = loginAt !== undefined && Math.floor(loginAt) <= mark.login
        if (mark.ended || isIssuedBefore || isOfLoginBefore) return shownOf(mark)
      }
      return undefined
    },
    /** All that is kept, as entries: for a store that has lost them. */
    entries (): RevocationEntry[] {
      forgetOld(marks)
      const entries: RevocationEntry[] = []
      const add = (key: string, effect: RevocationEffect, at: number, { event, source, sender, standing, recordedAt }: Merged): void => {
        if (at !== NEVER) entries.push({ key, effect, at, recordedAt, event, source, sender, standing })
      }
      for (const [key, mark] of marks) {
        if (mark.cutoff > mark.login) add(key, 'cutoff', mark.cutoff, mark)
        add(key, 'login', mark.login, mark)
        if (mark.ended) add(key, 'end', mark.recordedAt, mark)
      }
      for (const [key, block] of blocks) {
        add(key, 'block', block.blockedAt, block)
        add(key, 'enable', block.enabledAt, block)
      }
      return entries
    },
    /** The number of keys. */
    size: (): number => marks.size + blocks.size
  }
}

function renew (merged: Merged, { recordedAt }: RevocationEntry, position: LogPosition): void {
  merged.recordedAt = Math.max(merged.recordedAt, recordedAt)
  if (position > merged.position) merged.position = position
}

function shownOf ({ event, source, at }: Revocation): Revocation {
  return { event, source, at }
}
