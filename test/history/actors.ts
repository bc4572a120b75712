import { setTimeout as delay } from 'node:timers/promises'
import type { Random } from '../fuzz/random.ts'
import { nowSeconds } from '../helpers/clock.ts'
import { CAEP, type Transmitter } from '../helpers/revocation-site.ts'
import type { Call, Probe, Span, Word } from './records.ts'
import { LIFE_SECONDS, type Place, type World } from './world.ts'

const RISC = 'https://schemas.openid.net/secevent/risc/event-type/'
const ANSWER_MS = 3000
/** Names of the last seconds are asked about more often. */
const YOUNG = 60
/** Seconds by which the clocks of the issuers are ahead. */
const ISSUER_CLOCKS = [0, 1, 0]

/** A session or a user at an issuer, and all that was said and asked about it. */
export interface Name {
  id: string
  kind: 'session' | 'user'
  issuer: number
  bornSeconds: number
  /** With the place that was told. */
  words: Array<Word & { place: string }>
  /** SETs that may be sent again. */
  sets: Array<Pick<Word, 'says' | 'moment'> & { set: string }>
  tokens: Map<string, { token: string, probe: Probe, endSeconds: number }>
  /** Words under way. Only one that is alone takes something back. */
  talking: number
  isTakenBack: boolean
}

/** All that was asked and said. */
export interface Book {
  world: World
  names: Name[]
  calls: Call[]
  /** Events that were refused with this status, when and where. */
  refused: Array<{ status: number, place: string, time: Span }>
  /** Throwaway names so far, and until when they are kept. */
  noise: number
  noiseUntilMs: number
}

export const createBook = (world: World): Book =>
  ({ world, names: [], calls: [], refused: [], noise: 0, noiseUntilMs: 0 })

async function post (url: string, type: string, body: string, authorization?: string) {
  return fetch(url, {
    method: 'POST',
    headers: { 'content-type': type, ...authorization && { authorization } },
    body,
    signal: AbortSignal.timeout(ANSWER_MS)
  }).then(async answer => {
    await answer.arrayBuffer()
    return answer.status
  }, () => 0)
}

const push = ({ url }: Place, set: string) =>
  post(`${url}/revocation/events`, 'application/secevent+jwt', set)

const subjectOf = ({ world }: Book, { kind, id, issuer }: Name) =>
  kind === 'session' ? { format: 'opaque', id } : { format: 'iss_sub', iss: world.issuers[issuer]!.url, sub: id }

/** Writes down what was said, unless it was surely not taken. */
async function say (
  book: Book,
  { name, place, says, moment }: { name: Name, place: Place, says: Word['says'], moment: Span | undefined },
  send: () => Promise<number>
) {
  const start = Date.now()
  name.talking++
  name.isTakenBack = says === 'undo'
  const isAhead = () => place.wrongMs > 0 || book.world.store.aheadSeconds > 0
  const wasAhead = isAhead()
  const word: Word & { place: string } = {
    says,
    moment: moment ?? [start, Infinity],
    time: [start, Infinity],
    outcome: 'unknown',
    place: place.name
  }
  name.words.push(word)
  const status = await send()
  const end = Date.now()
  name.talking--
  name.isTakenBack = false
  const at = name.words.indexOf(word)
  if (status === 202 || status === 204) {
    // The service dates what an operator says.
    const dated = moment ?? [start, wasAhead || isAhead() ? Infinity : end + 1000]
    name.words[at] = { ...word, moment: dated, time: [start, end], outcome: 'acknowledged' }
    return
  }
  if (status !== 0) book.refused.push({ status, place: place.name, time: [start, end] })
  if (status >= 400 && status < 500) name.words.splice(at, 1)
  else name.words[at] = { ...word, time: [start, end] }
}

const TYPES: Record<string, readonly [says: Word['says'], type: string, event?: object]> = {
  ended: ['ended', `${CAEP}session-revoked`],
  logout: ['logout', `${CAEP}session-revoked`],
  cutoff: ['cutoff', `${CAEP}credential-change`, { change_type: 'update', credential_type: 'password' }],
  blocked: ['blocked', `${RISC}account-disabled`],
  enabled: ['enabled', `${RISC}account-enabled`]
}

/** An event of the transmitter, dated now, by a clock that is wrong, or shortly before the one that came last. */
export async function report (book: Book, random: Random, name: Name, place: Place, kind: string) {
  const [says, type, event = {}] = TYPES[kind]!
  const nowMs = Date.now()
  const last = name.sets.at(-1)
  const dated = last && random.oneIn(3)
    ? last.moment[0] - random.below(900)
    : nowMs + (random.oneIn(3) ? random.below(2400) - 1500 : random.oneIn(30) ? 4000 : 0)
  const isWhole = random.oneIn(4)
  const moment = isWhole ? Math.floor(dated / 1000) * 1000 : dated
  const set = book.world.transmitters[name.issuer]!.set({
    type,
    event: { ...event, event_timestamp: isWhole ? moment / 1000 : moment },
    claims: { jti: random.text('0123456789abcdef', 16), sub_id: subjectOf(book, name) }
  })
  name.sets.push({ says, moment: [moment, moment], set })
  await say(book, { name, place, says, moment: [moment, moment] }, () => push(place, set))
}

/** A SET comes once more, as transmitters do that had no answer. */
async function repeat (book: Book, random: Random, name: Name, place: Place) {
  const { says, moment, set } = random.among(name.sets)
  await say(book, { name, place, says, moment }, () => push(place, set))
}

/** What an operator says is dated by the service. */
export async function operate (book: Book, name: Name, place: Place, isUndo: boolean) {
  const token = book.world.issuers[name.issuer]!.token({
    sub: 'operator',
    scope: 'revoke',
    exp: nowSeconds() + LIFE_SECONDS
  })
  const says = isUndo ? 'undo' : name.kind === 'session' ? 'ended' : 'cutoff'
  const body = JSON.stringify({ sub_id: subjectOf(book, name), ...isUndo && { undo: true } })
  await say(book, { name, place, says, moment: undefined }, () =>
    post(`${place.url}/revocation/subjects`, 'application/json', body, `Bearer ${token}`))
}

export function makeName (book: Book, random: Random): Name {
  const { names, world } = book
  const kind = random.oneIn(2) ? 'session' : 'user'
  const name: Name = {
    id: `${kind} ${names.length}`,
    kind,
    issuer: random.below(world.issuers.length),
    bornSeconds: nowSeconds(),
    words: [],
    sets: [],
    tokens: new Map(),
    talking: 0,
    isTakenBack: false
  }
  names.push(name)
  return name
}

/** Tokens are kept, as clients keep them: what an instance has judged before is judged again. */
function tokenOf (book: Book, name: Name, which: string) {
  const known = name.tokens.get(which)
  const now = nowSeconds()
  if (known && (known.endSeconds > now || which === 'first')) return known.endSeconds > now ? known : undefined
  const iat = (which === 'first' ? name.bornSeconds : now) + ISSUER_CLOCKS[name.issuer]!
  const exp = iat + LIFE_SECONDS
  if (exp <= now) return undefined
  const probe = { iat, ...which === 'old login' && { authTime: name.bornSeconds } }
  const claims = name.kind === 'session' ? { sid: name.id, sub: `of ${name.id}` } : { sub: name.id }
  const token = book.world.issuers[name.issuer]!.token({ ...claims, iat, exp, auth_time: probe.authTime })
  const made = { token, probe, endSeconds: exp - 1 }
  name.tokens.set(which, made)
  return made
}

const REVOKED = 'has been revoked'

/** Asks an instance with a token of this name. */
export async function ask (book: Book, name: Name, place: Place, which: string): Promise<Call['outcome']> {
  const made = tokenOf(book, name, which)
  if (!made) return 'none'
  const start = Date.now()
  const outcome = await fetch(`${place.url}/api/private`, {
    headers: { authorization: `Bearer ${made.token}` },
    signal: AbortSignal.timeout(ANSWER_MS)
  }).then(async answer => {
    await answer.arrayBuffer()
    const challenge = answer.headers.get('www-authenticate') ?? ''
    if (answer.status === 200) return 'passed'
    if (answer.status === 503) return 'unknown'
    return challenge.includes(REVOKED) ? 'revoked' : 'none'
  }, () => 'none' as const)
  book.calls.push({ name: name.id, place: place.name, probe: made.probe, time: [start, Date.now()], outcome })
  return outcome
}

export const WHICH = { session: ['first', 'now'], user: ['first', 'now', 'old login'] } as const

const knowing = (world: World, issuer: number) =>
  world.places.filter(({ kind, process }) => kind.issuers.includes(issuer) && process)

/** Well signed, and about what is not its own: nothing of it may count. */
async function attack (book: Book, random: Random, name: Name, place: Place) {
  const subject = subjectOf(book, name)
  const { hostile } = book.world
  await push(
    place,
    hostile.set({
      claims: {
        jti: random.text('0123456789abcdef', 16),
        sub_id: random.among([subject, { format: 'aliases', identifiers: [subject] }, { user: subject }])
      }
    })
  )
}

const ALIASES = 100

/** Many names that nobody asks about, or the same ones again with later moments. */
export async function flood (
  book: Book,
  place: Place,
  sets: number,
  isRising: boolean,
  sender: Transmitter
) {
  const { world } = book
  const issuer = world.issuers[place.kind.issuers[1]!]!.url
  for (let n = 0; n < sets; n++) {
    const first = isRising ? 0 : book.noise
    if (!isRising) book.noise += ALIASES
    const identifiers = Array.from({ length: ALIASES }, (_, at) => ({
      format: 'iss_sub',
      iss: issuer,
      sub: `${isRising ? 'known' : 'noise'} ${first + at}`
    }))
    const status = await push(
      place,
      sender.set({
        type: `${CAEP}credential-change`,
        event: { change_type: 'update', credential_type: 'password', event_timestamp: Date.now() },
        claims: { jti: `${place.name} ${book.noise} ${n} ${Date.now()}`, sub_id: { format: 'aliases', identifiers } }
      })
    )
    book.noiseUntilMs = Date.now() + world.lifeOf(1)[1]
    if (status === 0) return
  }
}

/** Everywhere, with the tokens that clients have. */
async function askAround (book: Book, name: Name) {
  for (const place of knowing(book.world, name.issuer)) {
    for (const which of WHICH[name.kind]) await ask(book, name, place, which)
  }
}

/** One act of somebody, by a random number, and what came of it. */
async function act (book: Book, random: Random) {
  const { names, world } = book
  if (names.length === 0 || random.oneIn(5)) makeName(book, random)
  const name = random.among(random.oneIn(3) ? names : names.slice(random.oneIn(2) ? -YOUNG : -YOUNG / 10))
  const places = knowing(world, name.issuer)
  if (places.length === 0) return
  const count = name.words.length
  const isFollowed = random.oneIn(4)
  if (isFollowed && count > 0) await askAround(book, name)
  await actOn(book, random, name, random.among(places))
  if (!isFollowed || name.words.length === count) return
  await delay(1100)
  await askAround(book, name)
}

async function actOn (book: Book, random: Random, name: Name, place: Place) {
  if (random.oneIn(60)) return await attack(book, random, name, place)
  if (!random.oneIn(4)) {
    await ask(book, name, place, random.among(WHICH[name.kind]))
    return
  }
  if (name.isTakenBack) return
  if (name.words.length > 0 && name.talking === 0 && random.oneIn(8)) return await operate(book, name, place, true)
  if (name.sets.length > 0 && random.oneIn(6)) return await repeat(book, random, name, place)
  if (random.oneIn(5)) return await operate(book, name, place, false)
  await report(
    book,
    random,
    name,
    place,
    name.kind === 'session' ? 'ended' : random.among(['logout', 'cutoff', 'blocked', 'enabled', 'enabled'])
  )
}

/** Everybody acts until it is over. */
export async function makeLoad (book: Book, random: Random, isOver: () => boolean) {
  const pending = new Set<Promise<void>>()
  while (!isOver()) {
    const one = act(book, random).finally(() => pending.delete(one))
    pending.add(one)
    await delay(10 + random.below(20))
  }
  await Promise.all(pending)
}
