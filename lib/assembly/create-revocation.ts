import { withoutTrailingSlash } from '../provider/provider-url.ts'
import { hostsOf, parseReplayUrl } from '../replay/redis/replay-url.ts'
import { createCutoffs } from '../revocation/cutoffs.ts'
import { createMemoryLog } from '../revocation/log.ts'
import type { RevocationEntry, RevocationLog } from '../revocation/log.ts'
import { createReceiver } from '../revocation/receiver.ts'
import type { EventSender, LogoutSender, Received } from '../revocation/receiver.ts'
import { createRevocations } from '../revocation/revocations.ts'
import { EVENT_ALGS, SetError } from '../revocation/security-event-token.ts'
import type { ClaimNames } from '../revocation/target.ts'
import { createTransmitter } from '../revocation/transmitter.ts'
import type { Transmitter } from '../revocation/transmitter.ts'
import { SettingsError } from '../settings/problems.ts'
import { readSecret } from '../settings/revocation-settings.ts'
import type { LogoutSettings, RevocationSettings, TransmitterSettings } from '../settings/revocation-settings.ts'
import type { Settings } from '../settings/settings.ts'
import type { Surroundings } from '../surroundings.ts'
import { issuerSpellings } from '../token/jwt-checks.ts'
import { createKeys, networkOf } from './create-issuers.ts'
import type { IssuerKeyEvent, IssuersOptions } from './create-issuers.ts'
import { NODE_CRYPTO } from './jwt-tools.ts'

export type RevocationEvent =
  | IssuerKeyEvent
  | { readonly name: 'revocation_unavailable', readonly reason: string, readonly hosts: readonly string[] }
  | { readonly name: 'revocation_available', readonly hosts: readonly string[] }
  /** The store is the memory of the process. */
  | { readonly name: 'revocation_in_memory' }
  /** Its status, unless one of the next two says it. */
  | { readonly name: 'stream_changed', readonly transmitter: string, readonly status: string }
  | { readonly name: 'stream_enabled', readonly transmitter: string }
  /** Its transmitter sends nothing until subjects are added. */
  | { readonly name: 'stream_without_subjects', readonly transmitter: string }
  /** What became of an event that was polled. For those that are pushed, the log lines of the requests say it. */
  | { readonly name: 'revocation_received' } & Received
  | { readonly name: 'revocation_refused', readonly sender: string, readonly reason: string }

export interface RevocationPartsOptions extends Pick<IssuersOptions, 'surroundings' | 'transport' | 'jwtTools' | 'lookUpIssuer'> {
  /** The path under which the endpoints are mounted: empty, or one that begins with a slash. */
  readonly mount: string
  readonly onEvent: (event: RevocationEvent) => void
}

/** What receives revocations, keeps them and judges by them. */
export type RevocationParts = NonNullable<Awaited<ReturnType<typeof createRevocation>>>

/** Builds what the section `revocation` describes. Undefined if there is none. */
export async function createRevocation (settings: Settings, options: RevocationPartsOptions) {
  const { revocation } = settings
  if (!revocation) return undefined
  const { surroundings, transport = networkOf(settings), jwtTools = NODE_CRYPTO, mount, onEvent } = options
  const { now } = surroundings
  const { cutoffs, judge } = createRevocationView(revocation, settings, { ...surroundings, isOpen: options.lookUpIssuer !== undefined })
  // First, because a secret may be missing: nothing is open then.
  const transmitters = await Promise.all(revocation.transmitters.map(makeTransmitter))
  const logoutSenders = await Promise.all(revocation.logout.map(makeLogoutSender))
  const log = await openLog(revocation)
  const revocations = judge(log)
  const counts = new Map<string, number>()
  const receiver = createReceiver({
    senders: transmitters.map(({ sender }) => sender),
    logoutSenders,
    append: revocations.append,
    findSigner: jwtTools.createSignerFinder(),
    now
  })

  return {
    settings: revocation,
    revocations,
    receiver,
    transmitters,
    /** The issuers about whose tokens operators may speak. */
    issuers: settings.idp.issuers.map(({ issuer }) => issuer) as readonly string[],
    /** Counts what became of an event. Both words are ours, so their number is bounded. */
    count,
    /** What was counted, by `type outcome`. */
    counts: counts as ReadonlyMap<string, number>,
    start (): void {
      for (const transmitter of transmitters) transmitter.start()
    },
    async close (): Promise<void> {
      log.close()
      await Promise.all([...transmitters, ...logoutSenders.map(({ keys }) => keys)].map(part => part.close()))
    }
  }

  function count (type: string, outcome: string): void {
    counts.set(`${type} ${outcome}`, (counts.get(`${type} ${outcome}`) ?? 0) + 1)
  }

  async function takePolled (text: string, sender: EventSender): Promise<void> {
    try {
      const received = await receiver.take(text, sender)
      count(received.type, received.outcome)
      onEvent({ name: 'revocation_received', ...received })
    } catch (error) {
      count('refused', error instanceof SetError ? 'invalid' : 'unavailable')
      onEvent({ name: 'revocation_refused', sender: sender.name, reason: (error as Error).message })
      throw error
    }
  }

  function applyEntry (entry: RevocationEntry, ageSeconds: number, place: number): void {
    if (entry.effect === 'state') transmitters.find(({ sender }) => sender.name === entry.source)?.note(entry)
    cutoffs.apply(entry, ageSeconds, place)
  }

  async function openLog ({ store }: RevocationSettings): Promise<RevocationLog> {
    if (store === 'memory') {
      onEvent({ name: 'revocation_in_memory' })
      return createMemoryLog(applyEntry)
    }
    const target = parseReplayUrl(store)
    const hosts = hostsOf(target)
    // Loaded only if a Redis is configured: its client is a package of its own.
    const { openRedisClient } = await import('../replay/redis/redis-link.ts')
    const { createRedisLog } = await import('../revocation/redis-log.ts')
    return createRedisLog({
      open: listeners => openRedisClient(target, listeners, surroundings.steadyMs),
      surroundings,
      onEntry: applyEntry,
      kept: cutoffs,
      onChange: reason => onEvent(reason === null ? { name: 'revocation_available', hosts } : { name: 'revocation_unavailable', reason, hosts })
    })
  }

  async function makeTransmitter (given: TransmitterSettings, index: number): Promise<Transmitter> {
    const secret = async (name: 'clientSecret' | 'pushAuthorization'): Promise<string | undefined> => {
      try {
        return given[name] === undefined ? undefined : await readSecret(given[name], surroundings)
      } catch (error) {
        throw new SettingsError([`revocation.transmitters[${index}].${name} is not usable: ${(error as Error).message}; allowed: a text, { file: PATH } or { env: NAME }`])
      }
    }
    const issuer = given.issuer ?? given.metadata!
    return createTransmitter({
      ...given,
      clientSecret: await secret('clientSecret'),
      pushAuthorization: await secret('pushAuthorization'),
      pushUrl: pushUrlOf(settings, mount),
      transport,
      calls: networkOf(settings),
      surroundings,
      take: takePolled,
      lead: (task, seconds) => log.lead(task, seconds),
      onKeyEvent: event => onEvent({ ...event, issuer }),
      onStatus: status => onEvent(streamEvent(issuer, status))
    })
  }

  async function makeLogoutSender ({ issuer, clientId, sessionClaim }: LogoutSettings) {
    const { jwksUri } = settings.idp.issuers.find(known => known.issuer === issuer) ?? {}
    return {
      // Of its own, because the algorithms of access tokens are another setting.
      keys: await createKeys({ issuer, jwksUri, keysFile: undefined, algs: EVENT_ALGS }, settings, options),
      setRules: { issuers: issuerSpellings(issuer), audience: clientId, type: 'logout+jwt', isUntyped: true },
      issuer,
      sessionClaim,
      clockToleranceSeconds: settings.idp.clockToleranceSeconds
    } satisfies LogoutSender
  }
}

/** Maximum number of users, sessions and other keys with a cutoff or an end, and of those with a block. */
const MAX_KEYS = 1_000_000

export interface RevocationViewOptions extends Pick<Surroundings, 'now' | 'steadyMs'> {
  /** Whether the application decides which issuers there are. */
  readonly isOpen?: boolean
}

/** What a process knows of the log of revocations, and how it judges tokens by it. */
export function createRevocationView (revocation: RevocationSettings, { idp }: Pick<Settings, 'idp'>, { now, steadyMs, isOpen = false }: RevocationViewOptions) {
  const { clockToleranceSeconds } = idp
  const names = new Set(idp.issuers.map(({ issuer }) => withoutTrailingSlash(issuer)))
  const cutoffs = createCutoffs({
    max: MAX_KEYS,
    issuers: isOpen ? undefined : [...names],
    // A token passes until the clock tolerance after its `exp`, and its cutoff counts as long.
    retentionSeconds: revocation.retentionSeconds + clockToleranceSeconds,
    clockToleranceSeconds,
    now,
    steadyMs
  })
  return {
    cutoffs,
    /** Judges by a log whose entries `cutoffs` gets. */
    judge: (log: RevocationLog) => createRevocations({ ...revocation, cutoffs, log, names: claimNamesOf(revocation), isIssuer: issuer => isOpen || names.has(issuer), clockToleranceSeconds, now })
  }
}

/** Operators name sessions by `sid` and addresses by `email`, whatever senders do. */
function claimNamesOf ({ transmitters, logout }: RevocationSettings): ClaimNames {
  const session = [...transmitters, ...logout].map(({ sessionClaim }) => sessionClaim).filter(name => name !== false)
  const other = transmitters.flatMap(({ subjectClaims }) => Object.values(subjectClaims)).filter(name => name !== 'sub')
  return { session: [...new Set(['sid', ...session])], other: [...new Set(['email', ...other])] }
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
