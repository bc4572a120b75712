import { createKeySource } from '../provider/key-source.ts'
import type { KeySource, KeySourceEvent } from '../provider/key-source.ts'
import type { Transport } from '../provider/transport.ts'
import { hostsOf, parseReplayUrl } from '../replay/redis/replay-url.ts'
import { networkOf } from './network.ts'
import { createRevocationView } from './revocation-view.ts'
import type { LogPosition, RevocationEntry, RevocationLog } from '../revocation/log.ts'
import { createMemoryLog } from '../revocation/log.ts'
import { createReceiver } from '../revocation/receiver.ts'
import type { EventSender, LogoutSender, Receiver } from '../revocation/receiver.ts'
import type { Revocations } from '../revocation/revocations.ts'
import { EVENT_ALGS, SetError } from '../revocation/security-event-token.ts'
import { createTransmitter } from '../revocation/transmitter.ts'
import type { Transmitter } from '../revocation/transmitter.ts'
import { SettingsError } from '../settings/problems.ts'
import { readSecret } from '../settings/revocation-settings.ts'
import type { LogoutSettings, RevocationSettings, TransmitterSettings } from '../settings/revocation-settings.ts'
import type { Settings } from '../settings/settings.ts'
import type { Surroundings } from '../surroundings.ts'
import { issuerSpellings } from '../token/jwt-checks.ts'
import { createSignatureVerifier } from '../token/jwt-signature.ts'
import { createSignerFinder } from '../token/token-signer.ts'

export type RevocationEvent =
  | (KeySourceEvent & { readonly issuer: string })
  | { readonly name: 'revocation_unavailable', readonly reason: string, readonly hosts: readonly string[] }
  | { readonly name: 'revocation_available', readonly hosts: readonly string[] }
  /** The store is the memory of the process. */
  | { readonly name: 'revocation_in_memory' }
  /** Its status, unless one of the next two says it. */
  | { readonly name: 'stream_changed', readonly transmitter: string, readonly status: string }
  | { readonly name: 'stream_enabled', readonly transmitter: string }
  /** Its transmitter sends nothing until subjects are added. */
  | { readonly name: 'stream_without_subjects', readonly transmitter: string }
  /** What became of an event that was fetched. Of those that are pushed, the request tells. */
  | { readonly name: 'revocation_received', readonly sender: string, readonly type: string, readonly outcome: string }
  | { readonly name: 'revocation_refused', readonly sender: string, readonly reason: string }

export interface RevocationPartsOptions {
  readonly surroundings: Surroundings
  readonly transport: Transport
  /** The path under which the endpoints are mounted: empty, or one that begins with a slash. */
  readonly mount: string
  readonly onEvent: (event: RevocationEvent) => void
}

/** What takes revocations in, keeps them and judges by them. */
export interface RevocationParts {
  readonly settings: RevocationSettings
  readonly revocations: Revocations
  readonly receiver: Receiver
  readonly transmitters: readonly Transmitter[]
  /** The issuers about whose tokens operators may speak. `*` stands for all. */
  readonly issuers: readonly string[]
  /** Counts what became of an event. Both words are of ours, so their number is bounded. */
  count (event: string, outcome: string): void
  /** What was counted, by `event outcome`. */
  readonly counts: ReadonlyMap<string, number>
  start (): void
  close (): Promise<void>
}

/** Builds what the section `revocation` describes. Undefined if there is none. */
export async function createRevocation (settings: Settings, options: RevocationPartsOptions): Promise<RevocationParts | undefined> {
  const { revocation } = settings
  if (!revocation) return undefined
  const { wallMs, steadyMs } = options.surroundings
  const now = (): number => wallMs() / 1000
  const { cutoffs, keptSeconds, judge } = createRevocationView(revocation, settings, now)
  // First, because a secret may be missing: nothing is open then.
  const transmitters = await Promise.all(revocation.transmitters.map(makeTransmitter))
  const log = await openLog()
  const revocations = judge(log)
  const logoutSenders = revocation.logout.map(makeLogoutSender)
  const counts = new Map<string, number>()
  const receiver = createReceiver({
    senders: transmitters.map(({ sender }) => sender),
    logoutSenders: logoutSenders.map(({ sender }) => sender),
    findSigner: createSignerFinder(createSignatureVerifier()),
    append: revocations.append,
    now
  })

  return {
    settings: revocation,
    revocations,
    receiver,
    transmitters,
    issuers: settings.idp.issuers.map(({ issuer }) => issuer),
    counts,
    count,
    start () {
      for (const transmitter of transmitters) transmitter.start({ take: takeFetched, lead: log.lead })
    },
    async close () {
      log.close()
      await Promise.all([...transmitters, ...logoutSenders.map(({ keys }) => keys)].map(part => part.close()))
    }
  }

  function count (event: string, outcome: string): void {
    counts.set(`${event} ${outcome}`, (counts.get(`${event} ${outcome}`) ?? 0) + 1)
  }

  async function takeFetched (text: string, sender: EventSender): Promise<void> {
    try {
      const { event, outcome } = await receiver.take(text, sender)
      count(event, outcome)
      options.onEvent({ name: 'revocation_received', sender: sender.name, type: event, outcome })
    } catch (error) {
      count('refused', error instanceof SetError ? 'invalid' : 'unavailable')
      options.onEvent({ name: 'revocation_refused', sender: sender.name, reason: (error as Error).message })
      throw error
    }
  }

  function take (entry: RevocationEntry, position: LogPosition): void {
    if (entry.effect === 'state') transmitters.find(({ sender }) => sender.name === entry.source)?.note(entry)
    else cutoffs.apply(entry, position)
  }

  async function openLog (): Promise<RevocationLog> {
    const { store } = revocation!
    if (store === 'memory') {
      options.onEvent({ name: 'revocation_in_memory' })
      return createMemoryLog(take)
    }
    const target = parseReplayUrl(store)
    const hosts = hostsOf(target)
    // Loaded only if a Redis is configured: its client is a package of its own.
    const { openRedisClient } = await import('../replay/redis/redis-link.ts')
    const { createRedisLog } = await import('../revocation/redis-log.ts')
    return createRedisLog({
      open: listeners => openRedisClient(target, listeners, steadyMs),
      surroundings: options.surroundings,
      retentionSeconds: keptSeconds,
      onEntry: take,
      kept: cutoffs.entries,
      onChange: reason => options.onEvent(reason === null ? { name: 'revocation_available', hosts } : { name: 'revocation_unavailable', reason, hosts })
    })
  }

  async function makeTransmitter (given: TransmitterSettings, index: number): Promise<Transmitter> {
    const secret = async (name: 'clientSecret' | 'pushAuthorization'): Promise<string | undefined> => {
      try {
        return given[name] === undefined ? undefined : await readSecret(given[name], options.surroundings)
      } catch (error) {
        throw new SettingsError([`revocation.transmitters[${index}].${name} is not usable: ${(error as Error).message}; allowed: a text, { file: PATH } or { env: NAME }`])
      }
    }
    const issuer = given.issuer ?? given.metadata!
    return createTransmitter({
      ...given,
      clientSecret: await secret('clientSecret'),
      pushAuthorization: await secret('pushAuthorization'),
      pushUrl: pushUrlOf(settings, options.mount),
      transport: options.transport,
      calls: networkOf(settings),
      surroundings: options.surroundings,
      onKeyEvent: event => options.onEvent({ ...event, issuer }),
      onStatus: status => options.onEvent(streamEvent(issuer, status))
    })
  }

  function makeLogoutSender ({ issuer, clientId, sessionClaim }: LogoutSettings): { readonly sender: LogoutSender, readonly keys: KeySource } {
    const { jwksUri } = settings.idp.issuers.find(known => known.issuer === issuer) ?? {}
    const { wallMs: now, random, after } = options.surroundings
    // Of its own, because the algorithms of access tokens are another setting.
    const keys = createKeySource({ issuer, jwksUri, algs: EVENT_ALGS, transport: options.transport, now, random, schedule: (run, ms) => after(ms, run), onEvent: event => options.onEvent({ ...event, issuer }) })
    return {
      keys,
      sender: {
        keys,
        setRules: { issuers: issuerSpellings(issuer), audience: clientId, type: 'logout+jwt', isUntyped: true },
        logoutRules: { issuer, sessionClaim, clockToleranceSeconds: settings.idp.clockToleranceSeconds }
      }
    }
  }
}

function streamEvent (transmitter: string, status: string): RevocationEvent {
  if (status === 'enabled') return { name: 'stream_enabled', transmitter }
  return status === 'no_subjects' ? { name: 'stream_without_subjects', transmitter } : { name: 'stream_changed', transmitter, status }
}

/**
 * Where transmitters push events to. Undefined if the address of the service is not known.
 * @param mount the prefix of the plugin in another app, or the empty text
 */
export function pushUrlOf ({ server: { publicUrl } }: Pick<Settings, 'server'>, mount = ''): string | undefined {
  return publicUrl === undefined ? undefined : `${publicUrl.replace(/\/$/, '')}${mount}/revocation/events`
}
