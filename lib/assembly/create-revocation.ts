import { reachRedis } from '../guard/redis/reach-redis.ts'
import type { RevocationEntry } from '../revocation/entry.ts'
import { createEventBodies } from '../revocation/event-body.ts'
import { createReceiver, type EventSender, type LogoutSender, type Received } from '../revocation/receiver.ts'
import { createRevocations } from '../revocation/revocations.ts'
import { SetError } from '../revocation/set-error.ts'
import { createStoreClock } from '../revocation/store/clock.ts'
import { createMemoryStore } from '../revocation/store/memory-store.ts'
import type { RevocationStore } from '../revocation/store/store.ts'
import { claimNamesOf } from '../revocation/target.ts'
import { createView, type ViewOptions } from '../revocation/view.ts'
import { createTransmitter, type Transmitter, type TransmitterEvent } from '../revocation/transmitter/transmitter.ts'
import type { LogoutSettings, RevocationSettings, TransmitterSettings } from '../settings/revocation-settings.ts'
import type { Settings } from '../settings/settings.ts'
import { issuerSpellings, withoutTrailingSlash } from '../guard/provider/provider-url.ts'
import { createTransport } from '../guard/provider/transport.ts'
import { parsePublicUrl } from '../guard/url/base-url.ts'
import { urlUnder } from '../guard/url/http-url.ts'
import { createKeys, type IssuerPartOptions } from './create-issuers.ts'
import { transmitterAuthentication } from './client-credentials.ts'
import { readSecret } from '../settings/secret.ts'

export type RevocationEvent =
  | TransmitterEvent
  | { readonly name: 'revocation_unavailable', readonly reason: string, readonly hosts: readonly string[] }
  | { readonly name: 'revocation_available', readonly hosts: readonly string[] }
  /** The store is the memory of the process. */
  | { readonly name: 'revocation_in_memory' }
  /** The log of an earlier version has become records. */
  | { readonly name: 'revocation_taken_over', readonly hosts: readonly string[] }
  /**
   * Tokens of its subjects are refused until then, or until an operator undoes it. Its sender may have sent others in
   * the last minute.
   */
  | { readonly name: 'event_ahead', readonly sender: string, readonly seconds: number }

/** Clocks differ by less. */
const MAX_AHEAD_SECONDS = 60
/** Between two warnings about one sender. */
const WARNING_MS = 60_000

interface RevocationPartsOptions extends IssuerPartOptions, Openness {
  readonly settings: Settings
  /** Where transmitters push events to, or undefined if the address of the service is not known. */
  readonly pushUrl: string | undefined
  readonly onEvent: (event: RevocationEvent) => void
}

/** Builds what the section `revocation` describes. Returns undefined if there is none. */
export async function createRevocation (options: RevocationPartsOptions) {
  const { surroundings, settings, isOpen, transport = createTransport(settings.proxies), jwtTools, onEvent } = options
  const { revocation, proxies, idp } = settings
  if (!revocation) return undefined
  const { now } = surroundings
  const clock = createStoreClock(surroundings)
  const { view, judge } = createRevocationView(revocation, {
    ...idp,
    now,
    isOpen,
    ...clock,
    onNews: news => transmitters.find(({ stream }) => news.key.endsWith(` ${stream}`))?.note(news)
  })
  // First, because a secret may be missing: nothing is open then.
  const transmitters = await Promise.all(revocation.transmitters.map(makeTransmitter))
  const logoutSenders = await Promise.all(revocation.logout.map(makeLogoutSender))
  const store = await openStore(revocation)
  const revocations = judge(store)
  const counts = new Map<string, number>()
  /** When it was last said of a sender that its events are ahead. */
  const warnedMs = new Map<string, number>()
  const receiver = createReceiver({
    senders: transmitters.map(({ sender }) => sender),
    logoutSenders,
    append,
    findSigner: jwtTools.createSignerFinder(),
    now
  })

  return {
    settings: revocation,
    revocations,
    receiver,
    readBody: createEventBodies(surroundings.after),
    transmitters,
    /** All issuers that the settings name: the application may know more. */
    issuers: [
      ...new Set([
        ...idp.issuers.map(({ issuer }) => issuer),
        ...revocation.transmitters.flatMap(({ issuer, tokenIssuers = [issuer] }) => tokenIssuers),
        ...revocation.logout.map(({ issuer }) => issuer)
      ])
    ] as readonly string[],
    /** Counts what became of an event. Both words are ours, so their number is bounded. */
    count,
    /** What was counted, by `type outcome`. */
    counts: counts as ReadonlyMap<string, number>,
    start () {
      for (const transmitter of transmitters) transmitter.start()
    },
    async close () {
      store.close()
      await Promise.all([...transmitters, ...logoutSenders.map(({ keys }) => keys)].map(part => part.close()))
    }
  }

  function count (type: string, outcome: string) {
    counts.set(`${type} ${outcome}`, (counts.get(`${type} ${outcome}`) ?? 0) + 1)
  }

  async function append (entries: readonly RevocationEntry[]): Promise<boolean> {
    const isMatched = await revocations.append(entries)
    // All entries of one event have its moment.
    const [entry] = entries
    const nowMs = surroundings.steadyMs()
    if (
      entry && entry.at - now() > MAX_AHEAD_SECONDS &&
      nowMs >= (warnedMs.get(entry.source) ?? -Infinity) + WARNING_MS
    ) {
      warnedMs.set(entry.source, nowMs)
      onEvent({ name: 'event_ahead', sender: entry.source, seconds: Math.round(entry.at - now()) })
    }
    return isMatched
  }

  async function takePolled (text: string, sender: EventSender): Promise<Received> {
    try {
      const received = await receiver.take(text, sender)
      count(received.type, received.outcome)
      return received
    } catch (error) {
      count('refused', error instanceof SetError ? 'invalid' : 'unavailable')
      throw error
    }
  }

  async function openStore ({ store, staleSeconds }: RevocationSettings): Promise<RevocationStore> {
    if (store === 'memory') {
      onEvent({ name: 'revocation_in_memory' })
      return createMemoryStore(view, surroundings)
    }
    const { hosts, open } = await reachRedis(store, 'revocation.store', surroundings)
    // Loaded only if a Redis is configured.
    const { createRedisStore } = await import('../revocation/store/redis-store.ts')
    return createRedisStore({
      open,
      surroundings,
      clock,
      view,
      staleSeconds,
      onChange: reason =>
        onEvent(
          reason === null ? { name: 'revocation_available', hosts } : { name: 'revocation_unavailable', reason, hosts }
        ),
      onTakeOver: () => onEvent({ name: 'revocation_taken_over', hosts })
    })
  }

  async function makeTransmitter (given: TransmitterSettings, index: number): Promise<Transmitter> {
    const path = `revocation.transmitters[${index}]`
    return createTransmitter({
      ...given,
      authenticate: await transmitterAuthentication(given, path, surroundings),
      pushAuthorization: given.pushAuthorization &&
        await readSecret(given.pushAuthorization, `${path}.pushAuthorization`, surroundings),
      pushUrl: options.pushUrl,
      transport,
      calls: createTransport(proxies),
      surroundings,
      take: takePolled,
      announce: news => store.append([news]),
      lead: task => store.lead(task),
      onEvent
    })
  }

  async function makeLogoutSender ({ issuer, clientId, sessionClaim, algs }: LogoutSettings) {
    const { jwksUri, keysFile } = idp.issuers.find(known => known.issuer === issuer) ?? {}
    return {
      // Of its own, because the algorithms of access tokens are another setting. Providers send a logout once, so it
      // waits for keys while others only observe, too.
      keys: await createKeys({ issuer, jwksUri, keysFile, algs }, { ...options, observing: undefined }),
      setRules: { issuers: issuerSpellings(issuer), audience: clientId, algs, type: 'logout+jwt', isUntyped: true },
      issuer,
      sessionClaim,
      clockToleranceSeconds: idp.clockToleranceSeconds
    } satisfies LogoutSender
  }
}

/** Maximum number of users, sessions and other keys with a cutoff or an end, and of those with a block. */
const MAX_KEYS = 1_000_000

interface Openness {
  /** Whether the application decides which issuers there are. */
  readonly isOpen?: boolean
}

/** What a process knows of the store of revocations, and how it judges tokens by it. */
export function createRevocationView (
  revocation: RevocationSettings,
  { issuers, clockToleranceSeconds, isOpen = false, now, agreedNow, seconds, onNews }:
    & Openness
    & Pick<Settings['idp'], 'issuers' | 'clockToleranceSeconds'>
    & Pick<ViewOptions, 'now' | 'agreedNow' | 'seconds' | 'onNews'>
) {
  const names = new Set(issuers.map(({ issuer }) => withoutTrailingSlash(issuer)))
  const view = createView({
    max: MAX_KEYS,
    issuers: isOpen ? undefined : [...names],
    transmitters: revocation.transmitters.map(({ issuer }) => issuer),
    // A token passes until the clock tolerance after its `exp`, and its provider's clock may be as much ahead.
    lifeSeconds: revocation.retentionSeconds + 2 * clockToleranceSeconds,
    clockToleranceSeconds,
    now,
    agreedNow,
    seconds,
    onNews
  })
  return {
    view,
    /** Judges by a store whose records `view` gets. */
    judge: (store: RevocationStore) =>
      createRevocations({
        ...revocation,
        view,
        store,
        namesOf: claimNamesOf([
          ...revocation.transmitters.map(({ issuer, tokenIssuers = [issuer], sessionClaim, subjectClaims }) => ({
            about: tokenIssuers,
            sessionClaim,
            others: Object.values(subjectClaims)
          })),
          ...revocation.logout.map(({ issuer, sessionClaim }) => ({ about: [issuer], sessionClaim, others: [] }))
        ]),
        isIssuer: issuer => isOpen || names.has(issuer),
        clockToleranceSeconds,
        now
      })
  }
}

/**
 * Where transmitters push events to, or undefined if the address of the service is not known. It is normalised: a
 * transmitter that does so would otherwise say another one.
 * @param mount the prefix of the plugin in another app, or the empty text
 */
export function pushUrlOf (publicUrl: string | undefined, mount = ''): string | undefined {
  return publicUrl && urlUnder(parsePublicUrl(publicUrl)!, `${mount}/revocation/events`).href
}
