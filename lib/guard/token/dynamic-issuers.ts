import { LRUCache } from 'lru-cache'
import { Refusal } from '../../refusal.ts'
import { isSameIssuer } from './claims.ts'
import { closeIssuer, type IssuerTable, type TokenIssuer } from './issuer-table.ts'

/** How long an answer of the application is used. */
const ANSWER_MS = 5000
/** Only an attacker sends a longer name. */
const MAX_NAME_CHARACTERS = 2048
/** Each listed issuer has keys of its own, and fetches them again and again. */
export const DEFAULT_MAX_ISSUERS = 5000
/** Listed issuers without a verified token yet: any client can name them. */
const MAX_UNPROVEN = 1000
const MAX_UNLISTED = 1000
/** Look-ups of issuers that are not listed yet. Those of listed ones are not limited: their names cannot be made up. */
const MAX_LOOKUPS = 64
/** As many as metrics and readiness name. */
const MAX_SHOWN = 50

interface DynamicIssuersOptions {
  /**
   * Asks the application about an issuer. The answer is undefined if tokens of that issuer are refused, and `known` if
   * nothing has changed. Any rejection means that the answer is currently not known.
   */
  readonly ask: (iss: string, known: TokenIssuer | undefined) => Promise<TokenIssuer | undefined>
  /** The maximum number of issuers with a verified token. */
  readonly maxIssuers: number
  /** Milliseconds from any start. The clock is never set back. */
  readonly nowMs: () => number
}

/** An issuer, whose keys are trusted for as long as it is known to be listed, and what the application has said. */
interface Listed extends TokenIssuer {
  readonly source: TokenIssuer
  untilMs: number
}

/**
 * A table of issuers that the application keeps, for example one for each tenant. Answers are kept for 5 s. Within that
 * time a token of a listed issuer causes no look-up, and all requests that wait for an answer share one. A token that
 * was verified before is trusted only while its issuer is known to be listed.
 *
 * Forged tokens can name every issuer that is listed. So an issuer evicts another one only by its verified tokens:
 * until the first of them it is among the unproven ones, which evict each other, and no look-up makes any issuer more
 * recent.
 */
export function createDynamicIssuers ({ ask, maxIssuers, nowMs }: DynamicIssuersOptions): IssuerTable {
  const proven = new LRUCache<string, Listed>({ max: maxIssuers, dispose: retire })
  // It is only peeked at, so the oldest entry is evicted. One that becomes proven is among the others first: it stays.
  const unproven = new LRUCache<string, Listed>({
    max: MAX_UNPROVEN,
    dispose: (entry, iss) => {
      if (proven.peek(iss) !== entry) retire(entry)
    }
  })
  const unlisted = new LRUCache<string, number>({ max: MAX_UNLISTED })
  const lookups = new Map<string, Promise<TokenIssuer | undefined>>()
  let unlistedLookups = 0
  let isClosed = false

  function retire (entry: Listed) {
    entry.untilMs = -Infinity
    closeIssuer(entry.source)
  }

  function entryOf (iss: string) {
    return proven.peek(iss) ?? unproven.peek(iss)
  }

  function recordUse (iss: string) {
    if (proven.get(iss)) return
    const entry = unproven.peek(iss)
    if (!entry) return
    proven.set(iss, entry)
    unproven.delete(iss)
  }

  async function find (iss: string) {
    const entry = entryOf(iss)
    if (entry && nowMs() < entry.untilMs) return entry
    if (iss.length > MAX_NAME_CHARACTERS || nowMs() < (unlisted.get(iss) ?? -Infinity)) return undefined
    const running = lookups.get(iss)
    if (running) return running
    if (!entry && unlistedLookups >= MAX_LOOKUPS) throw unavailable()
    if (!entry) unlistedLookups++
    const lookup = lookUp(iss, entry).finally(() => {
      lookups.delete(iss)
      if (!entry) unlistedLookups--
    })
    lookups.set(iss, lookup)
    return lookup
  }

  async function lookUp (iss: string, entry: Listed | undefined): Promise<TokenIssuer | undefined> {
    const source = await ask(iss, entry?.source).catch(() => {
      throw unavailable()
    })
    // Nothing would close its keys.
    if (isClosed) throw unavailable()
    if (!source || !isSameIssuer(iss, source.issuer)) {
      proven.delete(iss)
      unproven.delete(iss)
      unlisted.set(iss, nowMs() + ANSWER_MS)
      return undefined
    }
    // It may have been evicted, or a token of it verified, while the application was asked.
    if (source === entry?.source) {
      if (entryOf(iss) !== entry) throw unavailable()
      entry.untilMs = nowMs() + ANSWER_MS
      return entry
    }
    const fresh: Listed = {
      ...source,
      keys: { ...source.keys, isTrusted: key => nowMs() < fresh.untilMs && source.keys.isTrusted(key) },
      source,
      untilMs: nowMs() + ANSWER_MS
    }
    const store = proven.has(iss) ? proven : unproven
    store.set(iss, fresh)
    return fresh
  }

  /**
   * The proven ones, the newest first, then the others, the oldest first: no forged token pushes one out of what is
   * shown.
   */
  function listed () {
    return [...proven.values(), ...[...unproven.values()].reverse()]
  }

  return {
    find,
    ofOpaque: undefined,
    isComplete: false,
    all: () => listed().slice(0, MAX_SHOWN),
    recordUse,
    // Keys are fetched when the first token of an issuer comes that nothing else refuses.
    start () {},
    async close () {
      isClosed = true
      await Promise.all(listed().map(({ source }) => closeIssuer(source)))
    }
  }
}

function unavailable (): Refusal {
  return new Refusal('issuers_unavailable', { retryAfterSeconds: 1 })
}
