import { setTimeout as delay } from 'node:timers/promises'
import { Agent } from 'undici'
import { REFUSALS } from '../../lib/refusal.ts'
import type { Random } from '../fuzz/random.ts'
import { createDpopClient, type DpopClient } from '../helpers/dpop-client.ts'
import type { Issuer } from '../helpers/issuer.ts'
import type { Fleet } from './fleet.ts'
import type { Operation } from './model.ts'
import { nowSeconds } from './recorder.ts'

export const API = 'https://api.test.example'
const PATH = '/api/private'
/** Of the accepted proofs, which are sent again and again. */
const RECENT = 400

/** What has been sent and answered, for `findViolations`. */
export interface Book {
  operations: Operation[]
  /** Requests of clients that were answered 200. */
  served: number
  challenges: number
  /** Two challenges in turn, although the instance was the same all the time. */
  gaveUp: number
  replays: number
  /** Replays that were answered with a challenge: the nonce was that of another instance, or of one that is gone. */
  foreign: number
}

export const createBook = (): Book => ({ operations: [], served: 0, challenges: 0, gaveUp: 0, replays: 0, foreign: 0 })

interface Sent {
  id: string
  token: string
  proof: string
}

/** `away`: the connection was not accepted. Like a challenge, this claims nothing. */
type Outcome = 'first' | 'seen' | 'unknown' | 'challenge' | 'away'

/** Sends requests, and writes into the book what they claim. */
function createSender (book: Book): {
  send (url: string, sent: Sent): Promise<{ outcome: Outcome, nonce: string | undefined }>
  close (): Promise<void>
} {
  const agent = new Agent({ connections: 64 })
  const { description } = REFUSALS.proof_replayed

  async function outcomeOf (
    url: string,
    { token, proof }: Sent
  ): Promise<{ outcome: Outcome, nonce: string | undefined }> {
    const answer = await agent.request({
      origin: url,
      path: PATH,
      method: 'GET',
      headers: { authorization: `DPoP ${token}`, dpop: proof }
    })
    await answer.body.dump()
    const [challenge, nonce] = [
      String(answer.headers['www-authenticate']),
      answer.headers['dpop-nonce'] as string | undefined
    ]
    if (answer.statusCode === 200) return { outcome: 'first', nonce }
    if (answer.statusCode === 503) return { outcome: 'unknown', nonce }
    if (challenge.includes('error="use_dpop_nonce"')) return { outcome: 'challenge', nonce }
    if (challenge.includes(description)) return { outcome: 'seen', nonce }
    throw new Error(`${answer.statusCode} ${challenge}`)
  }

  return {
    async send (url, sent) {
      const start = nowSeconds()
      const answer = await outcomeOf(url, sent).catch((error: NodeJS.ErrnoException) => {
        if (error.code === undefined) throw error
        return { outcome: error.code === 'ECONNREFUSED' ? 'away' as const : 'unknown' as const, nonce: undefined }
      })
      // A proof is never to pass again, whatever happens to instances: there is no end of its record, and no loss.
      const { outcome } = answer
      if (outcome !== 'challenge' && outcome !== 'away') {
        book.operations.push({ kind: 'claim', id: sent.id, outcome, start, end: nowSeconds(), expiresAt: Infinity })
      }
      return answer
    },
    close: () => agent.destroy()
  }
}

interface Visits {
  book: Book
  fleet: Fleet
  /** Where copies are sent too. */
  others: readonly string[]
  issuer: Issuer
  random: Random
  clients: number
  /** Loops that send copies of accepted proofs. */
  thieves: number
  isOver: () => boolean
}

/** Clients that keep the newest nonce and try once more, and thieves that send what was accepted to any instance. */
export async function visitAll (
  { book, fleet, others, issuer, random, clients, thieves, isOver }: Visits
) {
  const { send, close } = createSender(book)
  const recent: Sent[] = []
  let number = 0
  const anyUrl = () => random.among([...fleet.sites.map(({ url }) => url), ...others])

  async function replay (sent: Sent) {
    const { outcome } = await send(anyUrl(), sent)
    if (outcome !== 'away') book.replays++
    if (outcome === 'challenge') book.foreign++
  }

  async function visit (client: DpopClient, token: string, kept: string | undefined) {
    const home = fleet.homeOf(client.jkt)
    const { generation } = home
    let nonce = kept
    for (const isLast of [false, true]) {
      const sent = {
        id: `proof ${number++}`,
        token,
        proof: client.proof({ token, url: API + PATH, claims: { nonce } })
      }
      // Now and then copies are under way at the same moment.
      const copies = random.oneIn(4) ? [replay(sent), replay(sent)] : []
      const [answer] = await Promise.all([send(home.url, sent), ...copies])
      nonce = answer.nonce ?? nonce
      if (answer.outcome === 'away') return nonce
      if (answer.outcome !== 'challenge') {
        if (answer.outcome === 'first') book.served++
        if (recent.push(sent) > RECENT) recent.splice(random.below(RECENT), 1)
        return nonce
      }
      book.challenges++
      if (isLast && home.isThere && home.generation === generation) book.gaveUp++
    }
    return nonce
  }

  const lives = Array.from({ length: clients }, async () => {
    const client = await createDpopClient()
    // The longest runs take an hour.
    const token = issuer.token({ cnf: client.cnf, exp: Math.floor(Date.now() / 1000) + 86_400 })
    let nonce: string | undefined
    while (!isOver()) {
      nonce = await visit(client, token, nonce)
      await delay(random.below(100))
    }
  })
  const thefts = Array.from({ length: thieves }, async () => {
    while (!isOver()) {
      if (recent.length === 0) await delay(10)
      else await replay(random.among(recent))
    }
  })
  await Promise.all([...lives, ...thefts])
  await close()
}
