import type { RevocationEntry } from './entry.ts'

/** What refuses a token, for people. */
export interface Revocation {
  readonly event: string
  readonly source: string
  /** Unix seconds. */
  readonly at: number
}

/** What a token says of itself, as far as revocations ask. */
export interface RevocationFacts {
  /** The keys of all that a revocation can name in the token. */
  readonly keys: readonly string[]
  /** `iat`, in Unix seconds. */
  readonly issuedAt: number | undefined
  /** `auth_time`, in Unix seconds. */
  readonly loginAt: number | undefined
}

export interface CutoffsOptions {
  /** Maximum number of keys. */
  readonly max: number
  /** Seconds for which a cutoff is kept after it was recorded. A block is kept until it is lifted. */
  readonly retentionSeconds: number
  /** Unix seconds. */
  readonly now: () => number
}

/** The position of an entry in the log: texts that sort like the entries. */
export type LogPosition = string

/** What stands for a key. Entries merge by maximum, so repeats and any order are harmless. */
interface Mark {
  cutoff: number
  login: number
  ended: boolean
  revocation: Revocation
  recordedAt: number
  /** The newest entry that it holds. */
  position: LogPosition
}

interface Block {
  blockedAt: number
  enabledAt: number
  revocation: Revocation
  recordedAt: number
  position: LogPosition
}

interface Undo {
  readonly position: LogPosition
  readonly recordedAt: number
}

export type Cutoffs = ReturnType<typeof createCutoffs>

/**
 * The view of one process of what has been revoked. It never forgets a cutoff that a live token could meet: the log refuses an event
 * for which there is no room, and entries of others are taken even beyond the maximum.
 */
export function createCutoffs ({ max, retentionSeconds, now }: CutoffsOptions) {
  // Maps keep the order of insertion, which is that of `recordedAt` but for entries that a store got back.
  const marks = new Map<string, Mark>()
  const blocks = new Map<string, Block>()
  const undone = new Map<string, Undo>()
  let version = 0

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

  function applyBlock (entry: RevocationEntry, position: LogPosition): void {
    const { key, at, recordedAt } = entry
    const block = blocks.get(key) ?? { blockedAt: -Infinity, enabledAt: -Infinity, revocation: entry, recordedAt, position }
    if (entry.effect === 'enable') block.enabledAt = Math.max(block.enabledAt, at)
    else if (at >= block.blockedAt) Object.assign(block, { blockedAt: at, revocation: revocationIn(entry) })
    block.recordedAt = Math.max(block.recordedAt, recordedAt)
    block.position = later(block.position, position)
    blocks.set(key, block)
  }

  function applyMark (entry: RevocationEntry, position: LogPosition): void {
    const { key, effect, at, recordedAt } = entry
    if (!isLive(entry)) return
    const mark = marks.get(key) ?? { cutoff: -Infinity, login: -Infinity, ended: false, revocation: revocationIn(entry), recordedAt, position }
    if (at >= mark.revocation.at) mark.revocation = revocationIn(entry)
    if (effect === 'end') mark.ended = true
    else mark.cutoff = Math.max(mark.cutoff, at)
    if (effect === 'login') mark.login = Math.max(mark.login, at)
    mark.recordedAt = Math.max(mark.recordedAt, recordedAt)
    mark.position = later(mark.position, position)
    // To the end: the front is what is forgotten first.
    marks.delete(key)
    marks.set(key, mark)
  }

  function applyUndo ({ key, recordedAt }: RevocationEntry, position: LogPosition): void {
    undone.delete(key)
    undone.set(key, { position, recordedAt })
    for (const map of [marks, blocks]) {
      const standing = map.get(key)
      if (standing && standing.position <= position) map.delete(key)
    }
  }

  return {
    /** Takes an entry in. An entry may come again, and in any order. */
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
        if (block && block.blockedAt >= block.enabledAt && block.blockedAt !== -Infinity) return block.revocation
        const mark = marks.get(key)
        if (!mark || !isLive(mark)) continue
        // Without `iat` nothing says that the token is newer.
        const isIssuedBefore = mark.cutoff !== -Infinity && (issuedAt === undefined || Math.floor(issuedAt) <= mark.cutoff)
        const isOfLoginBefore = loginAt !== undefined && Math.floor(loginAt) <= mark.login
        if (mark.ended || isIssuedBefore || isOfLoginBefore) return mark.revocation
      }
      return undefined
    },
    /** All that stands, as entries: for a store that has lost them. */
    entries (): RevocationEntry[] {
      forgetOld(marks)
      return [
        ...[...marks].flatMap(([key, { cutoff, login, ended, revocation: { event, source }, recordedAt }]) => [
          ...(cutoff > login ? [{ key, effect: 'cutoff' as const, at: cutoff, recordedAt, event, source }] : []),
          ...(login === -Infinity ? [] : [{ key, effect: 'login' as const, at: login, recordedAt, event, source }]),
          ...(ended ? [{ key, effect: 'end' as const, at: recordedAt, recordedAt, event, source }] : [])
        ]),
        ...[...blocks].flatMap(([key, { blockedAt, enabledAt, revocation: { event, source }, recordedAt }]) => [
          ...(blockedAt === -Infinity ? [] : [{ key, effect: 'block' as const, at: blockedAt, recordedAt, event, source }]),
          ...(enabledAt === -Infinity ? [] : [{ key, effect: 'enable' as const, at: enabledAt, recordedAt, event, source }])
        ])
      ]
    },
    /** The number of keys. */
    size: (): number => marks.size + blocks.size,
    max
  }
}

function revocationIn ({ event, source, at }: RevocationEntry): Revocation {
  return { event, source, at }
}

function later (a: LogPosition, b: LogPosition): LogPosition {
  return a > b ? a : b
}
