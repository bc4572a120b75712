import { LRUCache } from 'lru-cache'
import { Refusal } from '../refusal.ts'
import { issuerSpellings } from './jwt-checks.ts'
import { closeIssuer } from './issuer-table.ts'
import type { IssuerTable, TokenIssuer } from './issuer-table.ts'

/** How long an answer of the application holds. */
const HOLDS_MS = 5000
/** Only an attacker sends a longer name. */
const MAX_NAME_CHARACTERS = 2048
/** Each listed issuer has keys of its own, and fetches them again and again. */
export const DEFAULT_MAX_ISSUERS = 5000
/** Listed issuers of which no token has been verified yet: anybody can name them. */
const MAX_UNPROVEN = 1000
const MAX_UNLISTED = 1000
/** Questions about issuers that are not listed yet. Those about listed ones are not limited: they cannot be made up. */
const MAX_QUESTIONS = 64
/** As many as are named in metrics and readiness. */
const MAX_SHOWN = 50

const UNAVAILABLE_SECONDS = 1

export interface AskedIssuersOptions {
  /**
   * Asks the application about an issuer. Its answer is undefined if tokens of that issuer do not pass. It is `known` if nothing has
   * changed. Any rejection means that the answer is not known now.
   */
  readonly ask: (iss: string, known: TokenIssuer | undefined) => Promise<TokenIssuer | undefined>
  /** The most issuers that are kept because a token of theirs was verified. */
  readonly maxIssuers: number
  /** Milliseconds from any start. The clock is never set back. */
  readonly nowMs: () => number
}

interface Listed {
  readonly issuer: TokenIssuer
  readonly source: TokenIssuer
  untilMs: number
  /** Whether a token of it was verified. */
  isProven: boolean
}

/**
 * A table of issuers that the application keeps, for example one for each tenant. Answers are kept for 5 s. Within that time a token
 * of a listed issuer causes no question, and all requests that wait for an answer share one question. A token that was verified
 * before is trusted only while its issuer is known to be listed.
 *
 * Forged tokens can name every issuer that is listed. So an issuer makes room for another one only by its verified tokens: until the
 * first of them it stands among the unproven ones, which make room for each other, and no look-up makes any issuer more recent.
 */
export function createAskedIssuers ({ ask, maxIssuers, nowMs }: AskedIssuersOptions): IssuerTable {
  const proven = new LRUCache<string, Listed>({ max: maxIssuers, dispose: retire })
  // A Map keeps the order in which its entries came.
  const unproven = new Map<string, Listed>()
  const unlisted = new LRUCache<string, number>({ max: MAX_UNLISTED })
  const questions = new Map<string, Promise<TokenIssuer | undefined>>()
  let unlistedQuestions = 0

  function retire (entry: Listed): void {
    entry.untilMs = -Infinity
    closeIssuer(entry.source)
  }

  function entryOf (iss: string): Listed | undefined {
    return proven.peek(iss) ?? unproven.get(iss)
  }

  function keep (iss: string, entry: Listed): void {
    if (entry.isProven) {
      proven.set(iss, entry)
      return
    }
    unproven.set(iss, entry)
    if (unproven.size > MAX_UNPROVEN) forget(unproven.keys().next().value!)
  }

  function forget (iss: string): void {
    const entry = unproven.get(iss)
    if (entry && unproven.delete(iss)) retire(entry)
    proven.delete(iss)
  }

  function recordUse (iss: string): void {
    if (proven.get(iss)) return
    const entry = unproven.get(iss)
    if (!entry) return
    unproven.delete(iss)
    entry.isProven = true
    keep(iss, entry)
  }

  function find (iss: string): TokenIssuer | undefined | Promise<TokenIssuer | undefined> {
    const entry = entryOf(iss)
    if (entry && nowMs() < entry.untilMs) return entry.issuer
    if (iss.length > MAX_NAME_CHARACTERS || nowMs() < (unlisted.get(iss) ?? -Infinity)) return undefined
    const running = questions.get(iss)
    if (running) return running
    if (!entry && unlistedQuestions >= MAX_QUESTIONS) return Promise.reject(unavailable())
    if (!entry) unlistedQuestions++
    const question = put(iss, entry).finally(() => {
      questions.delete(iss)
      if (!entry) unlistedQuestions--
    })
    questions.set(iss, question)
    return question
  }

  async function put (iss: string, entry: Listed | undefined): Promise<TokenIssuer | undefined> {
    let source: TokenIssuer | undefined
    try {
      source = await ask(iss, entry?.source)
    } catch {
      throw unavailable()
    }
    if (!source || !issuerSpellings(source.issuer).includes(iss)) {
      forget(iss)
      unlisted.set(iss, nowMs() + HOLDS_MS)
      return undefined
    }
    // Its keys are closed if it had to make room while the application was asked.
    if (source === entry?.source) {
      if (entryOf(iss) !== entry) throw unavailable()
      entry.untilMs = nowMs() + HOLDS_MS
      return entry.issuer
    }
    // A token of it may have been verified while the application was asked.
    const isProven = entryOf(iss)?.isProven ?? false
    forget(iss)
    const fresh = list(source, isProven)
    keep(iss, fresh)
    source.keys.start()
    return fresh.issuer
  }

  function list (source: TokenIssuer, isProven: boolean): Listed {
    const entry: Listed = {
      source,
      isProven,
      issuer: { ...source, keys: { ...source.keys, isTrusted: key => nowMs() < entry.untilMs && source.keys.isTrusted(key) } },
      untilMs: nowMs() + HOLDS_MS
    }
    return entry
  }

  function listed (): Listed[] {
    return [...proven.values(), ...unproven.values()]
  }

  return {
    find,
    ofOpaque: undefined,
    isComplete: false,
    all: () => listed().slice(0, MAX_SHOWN).map(({ issuer }) => issuer),
    recordUse,
    // Keys are fetched when the first token of an issuer comes.
    start () {},
    async close () {
      await Promise.all(listed().map(({ source }) => closeIssuer(source)))
    }
  }
}

function unavailable (): Refusal {
  return new Refusal('issuers_unavailable', { retryAfterSeconds: UNAVAILABLE_SECONDS })
}
