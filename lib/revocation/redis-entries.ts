import { isJsonObject } from '../json.ts'
import { EFFECTS, STANDINGS } from './log.ts'
import type { RevocationEntry } from './log.ts'
import { isStreamNews } from './transmitter/stream-news.ts'

/** Entries of one answer. */
export const PAGE = 1000

/** An entry as the log keeps it, with the milliseconds of the clock of the log at which it was written. */
export type StoredEntry = RevocationEntry & { readonly t: number }

/** @param writtenMs milliseconds of the clock of the log */
export function writeEntry (entry: RevocationEntry, writtenMs: number): string {
  // A million are written again for an emptied server: to spread them takes twice the time and memory.
  const { key, effect, at, also, recordedAt, event, sender, standing } = entry
  const source = entry.source.slice(0, MAX_CHARACTERS)
  const t = Math.floor(writtenMs)
  return JSON.stringify({ key, effect, at, also, recordedAt, event, source, sender, standing, t })
}

const MAX_KEY_CHARACTERS = 1000
const MAX_CHARACTERS = 4096
/** The end of a type of events, and the words of our own. They are shown. */
const EVENT = /^[a-z][a-z-]{0,63}$/

/**
 * Reads an entry. Undefined unless an instance can have written it: others who write to the store must not reach people
 * through it.
 */
export function readEntry (text: string): StoredEntry | undefined {
  let given: unknown
  try {
    given = JSON.parse(text)
  } catch {
    return undefined
  }
  if (!isJsonObject(given)) return undefined
  const { key, effect, at, also, recordedAt, t, event, source, sender, standing } = given
  const isRead = isText(key, MAX_KEY_CHARACTERS) && isOneOf(EFFECTS, effect) && isTime(at) && isTime(recordedAt) &&
    isTime(t) && (also === undefined || isTime(also)) &&
    isText(event, MAX_CHARACTERS) && (effect === 'state' ? isStreamNews(event) : EVENT.test(event)) &&
    isText(source, MAX_CHARACTERS) &&
    isText(sender, MAX_CHARACTERS) && isOneOf(STANDINGS, standing)
  return isRead ? given as unknown as StoredEntry : undefined
}

function isOneOf (words: readonly unknown[], value: unknown): boolean {
  return words.includes(value)
}

function isText (value: unknown, maxCharacters: number): value is string {
  return typeof value === 'string' && value.length <= maxCharacters
}

function isTime (value: unknown): value is number {
  return Number.isFinite(value)
}

/** Orders ids of Redis, which are two numbers: `milliseconds-sequence`. */
const idOrder = new Intl.Collator('en', { numeric: true })

/** Whether one id stands before another in the log. */
export function isBefore (id: string, other: string): boolean {
  return idOrder.compare(id, other) < 0
}
