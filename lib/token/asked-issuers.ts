import { LRUCache } from 'lru-cache'
import { Refusal } from '../refusal.ts'
import { issuerSpellings } from './jwt-checks.ts'
import { closeIssuer } from './issuer-table.ts'
import type { IssuerTable, TokenIssuer } from './issuer-table.ts'

/** How long an answer of the application holds. */
const HOLDS_MS = 5000
/** The application is asked about a longer name by nobody but an attacker. */
const MAX_NAME_CHARACTERS = 2048
/** Each listed issuer has keys of its own, and fetches them again and again. */
const MAX_LISTED = 500
const MAX_UNLISTED = 1000
/** Questions about issuers that are not listed yet. Those about listed ones are not limited: nobody can make them up. */
const MAX_QUESTIONS = 64
/** As many as are named in metrics and readiness. */
const MAX_SHOWN = 50

const UNAVAILABLE_SECONDS = 1

export interface AskedIssuersOptions {
  /**
   * Asks the application about an issuer. Its answer is undefined if tokens of that issuer do not pass. It is `known` if nothing has
   * changed. Any rejection means that nobody can tell now.
   */
  readonly ask: (iss: string, known: TokenIssuer | undefined) => Promise<TokenIssuer | undefined>
  /** Milliseconds from any start. The clock is never set back. */
  readonly nowMs: () => number
}

interface Listed {
  readonly issuer: TokenIssuer
  readonly source: TokenIssuer
  untilMs: number
}

/**
 * A table of issuers that the application keeps, for example one for each tenant. Answers are kept for 5 s. Within that time a token
 * of a listed issuer causes no question, and all requests that wait for an answer share one question. A token that was verified
 * before is trusted only while its issuer is known to be listed.
 */
export function createAskedIssuers ({ ask, nowMs }: AskedIssuersOptions): IssuerTable {
  const listed = new LRUCache<string, Listed>({ max: MAX_LISTED, dispose: retire })
  const unlisted = new LRUCache<string, number>({ max: MAX_UNLISTED })
  const questions = new Map<string, Promise<TokenIssuer | undefined>>()
  let unlistedQuestions = 0

  function retire (entry: Listed): void {
    entry.untilMs = -Infinity
    closeIssuer(entry.source)
  }

  function find (iss: string): TokenIssuer | undefined | Promise<TokenIssuer | undefined> {
    const entry = listed.get(iss)
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
      listed.delete(iss)
      unlisted.set(iss, nowMs() + HOLDS_MS)
      return undefined
    }
    if (source === entry?.source) {
      entry.untilMs = nowMs() + HOLDS_MS
      return entry.issuer
    }
    const fresh = list(source)
    listed.set(iss, fresh)
    source.keys.start()
    return fresh.issuer
  }

  function list (source: TokenIssuer): Listed {
    const entry: Listed = {
      source,
      issuer: { ...source, keys: { ...source.keys, isTrusted: key => nowMs() < entry.untilMs && source.keys.isTrusted(key) } },
      untilMs: nowMs() + HOLDS_MS
    }
    return entry
  }

  return {
    find,
    ofOpaque: undefined,
    isComplete: false,
    all: () => [...listed.values()].slice(0, MAX_SHOWN).map(({ issuer }) => issuer),
    // Keys are fetched when the first token of an issuer comes.
    start () {},
    async close () {
      await Promise.all([...listed.values()].map(({ source }) => closeIssuer(source)))
    }
  }
}

function unavailable (): Refusal {
  return new Refusal('issuers_unavailable', undefined, UNAVAILABLE_SECONDS)
}
