import { createCertificateReader } from '../certificate/client-certificate.ts'
import type { CertificateReader } from '../certificate/client-certificate.ts'
import { createChallenges } from '../guard/challenge.ts'
import type { Challenges } from '../guard/challenge.ts'
import { createClientKeys } from '../dpop/client-keys.ts'
import { verifyProof } from '../dpop/proof.ts'
import { createNonces } from '../dpop/nonces.ts'
import { AFFINITY_MISSING, createAffinityWatch } from '../guard/affinity.ts'
import type { MissingAffinity } from '../guard/affinity.ts'
import { createGuard } from '../guard/guard.ts'
import type { Guard, GuardOptions } from '../guard/guard.ts'
import { createIssuers } from './create-issuers.ts'
import type { IssuerEvent, IssuersOptions } from './create-issuers.ts'
import { NODE_CRYPTO } from './jwt-tools.ts'
import { createJudge } from '../requirement/judge.ts'
import { createGuardTally } from '../metrics/tallies.ts'
import { timeProofs, timeRecords, timeSignatures } from '../metrics/timings.ts'
import { createRateLimit } from '../guard/rate-limit.ts'
import type { Surroundings } from '../surroundings.ts'
import { createRevocation } from './create-revocation.ts'
import type { RevocationEvent } from './create-revocation.ts'
import { createTokenSignals } from '../guard/request-auth.ts'
import { createReplayStore } from '../replay/create-store.ts'
import type { ReplayStoreEvent } from '../replay/create-store.ts'
import { metadataLocation, metadataOfAudience, metadataUrlOf } from './resource-metadata.ts'
import type { AppFunctions } from '../settings/options.ts'
import type { Settings } from '../settings/settings.ts'
import { createScopeGranters } from '../requirement/implied-scopes.ts'
import { createJwtVerifier } from '../token/jwt-verifier.ts'
import type { JwtVerifierOptions } from '../token/jwt-verifier.ts'
import { createVerifiedTokens } from '../token/verified-tokens.ts'
import { createPeerTrust } from '../url/base-url.ts'
import { createRequestUrlResolver } from '../url/request-url.ts'

/** The guard and the parts behind it. Each process makes them once. */
export type GuardParts = Awaited<ReturnType<typeof createGuardParts>>

export type GuardEvent =
  | IssuerEvent
  | ReplayStoreEvent
  | RevocationEvent
  | { readonly name: 'nonce_secret_random' }
  | { readonly name: 'affinity_missing' } & MissingAffinity

export interface GuardPartsOptions extends IssuersOptions, AppFunctions {
  /** Called once for each change of state, for the log. */
  readonly onEvent: (event: GuardEvent) => void
  /**
   * The path under which the application is mounted. It is usually empty. That application serves the metadata of RFC
   * 9728 beside the guard, so challenges may point to it. Undefined if the metadata is not served.
   */
  readonly metadataMount: string | undefined
  /** The path under which the guard is mounted. Empty unless given. */
  readonly mount?: string | undefined
  /** Takes the place of what the settings say about certificates. */
  readonly readCertificate?: CertificateReader | undefined
}

/** Verified tokens that are remembered for each further audience. */
const MAX_TOKENS_OF_AUDIENCE = 5000

/** Builds the guard from settings. */
export async function createGuardParts (
  settings: Settings,
  {
    surroundings,
    jwtTools = NODE_CRYPTO,
    lookUpIssuer,
    maxIssuers,
    onEvent,
    metadataMount,
    mount = '',
    transport,
    trustPeer,
    readCertificate
  }: GuardPartsOptions
) {
  const { now, steadyMs: nowMs } = surroundings
  const issuers = await createIssuers(settings, {
    surroundings,
    jwtTools,
    lookUpIssuer,
    maxIssuers,
    transport,
    onEvent
  })
  const replay = await createReplayStore({
    store: settings.dpop.replay,
    maxRecords: settings.dpop.replayMax,
    surroundings,
    onEvent
  })
  const nonces = settings.dpop.nonce === 'required'
    ? createNonces(
      nonceSecrets(settings, surroundings, onEvent),
      settings.dpop.replay === 'memory' ? 'process' : 'shared'
    )
    : undefined
  const watch = nonces && settings.dpop.replay === 'memory'
    ? createAffinityWatch({ nowMs, onEvent })
    : (guard: Guard) => guard
  const clientKeys = createClientKeys(settings.dpop.algs, { nowMs })
  const verified = createVerifiedTokens()
  const tally = settings.server.metrics === 'on' ? createGuardTally() : undefined
  const clockToleranceSeconds = settings.idp.clockToleranceSeconds

  const revocation = await createRevocation(settings, {
    surroundings,
    jwtTools,
    transport,
    lookUpIssuer,
    mount,
    onEvent
  })
  const revocationOf = revocation?.revocations.refusalOf

  const plainFinder = jwtTools.createSignerFinder()
  const findSigner = tally ? timeSignatures(plainFinder, tally.tokens, nowMs) : plainFinder
  const signals = createTokenSignals({ revocationOf, clockToleranceSeconds, now, every: surroundings.every })
  const trustProxy = trustPeer ?? settings.server.trustProxy
  const common: Omit<GuardOptions, 'tokens'> = {
    mode: settings.idp.dpopMode,
    proofs: {
      iatOffsetSeconds: settings.idp.dpopIatOffsetSeconds,
      iatLeewaySeconds: settings.idp.dpopIatLeewaySeconds,
      keys: clientKeys,
      replay: tally && replay.state().kind === 'redis' ? timeRecords(replay, tally.records, nowMs) : replay,
      nonces,
      nonceIat: settings.dpop.nonceIat
    },
    verifyProof: tally ? timeProofs(verifyProof, tally.proofs, nowMs) : verifyProof,
    rateLimit: settings.server.rateLimit === undefined
      ? undefined
      : createRateLimit({ max: settings.server.rateLimit, nowMs }),
    resolveUrl: createRequestUrlResolver({ trustProxy, publicUrl: settings.server.publicUrl }),
    readCertificate: readCertificate ??
      createCertificateReader({
        source: settings.server.clientCertificate,
        isTrustedPeer: createPeerTrust(trustProxy)
      }),
    now
  }
  const guardOf = (parts: Pick<JwtVerifierOptions, 'audience' | 'verified'>): Guard =>
    watch(
      createGuard({
        ...common,
        tokens: createJwtVerifier({ ...parts, issuers, findSigner, revocationOf, clockToleranceSeconds })
      })
    )

  const metadataFor = (audience: string | undefined, metadataMount: string): string | undefined => {
    const metadata = metadataOfAudience(audience, settings)
    return metadata === 'own'
      ? metadataLocation(audience!)
      : metadata === 'default'
        ? metadataUrlOf(settings, metadataMount)
        : undefined
  }

  return {
    guard: guardOf({ verified }),
    /**
     * Makes the same guard for tokens that are meant for another audience. It shares everything but the memory of
     * verified tokens: a token that was verified for one audience must not pass for another.
     */
    guardFor: (audience: string): Guard =>
      guardOf({ audience, verified: createVerifiedTokens(MAX_TOKENS_OF_AUDIENCE) }),
    judge: createJudge({ granters: createScopeGranters(settings.idp.scopeImplies ?? {}), clockToleranceSeconds, now }),
    /**
     * @param audience the one that a token needs, if it is not the configured one. Challenges lead to metadata by which
     * a client gets such a token.
     */
    challengesFor: (audience?: string): Challenges =>
      createChallenges({
        mode: settings.idp.dpopMode,
        algs: settings.dpop.algs,
        resourceMetadataUrl: metadataMount === undefined ? undefined : metadataFor(audience, metadataMount)
      }),
    /** Undefined if the configured domain is unusable. */
    issuers,
    replay,
    nonces,
    verified,
    clientKeys,
    signals,
    /** Undefined if nothing can be revoked. */
    revocation,
    /** What the guard has done, for metrics. Undefined if metrics are off. */
    tally,
    /** Starts to fetch keys in the background, and loads what the first tokens need. */
    start (): void {
      issuers?.start()
      revocation?.start()
      jwtTools.load()
    },
    async close (): Promise<void> {
      signals.close()
      await Promise.all([issuers?.close(), replay.close(), revocation?.close()])
    }
  }
}

function nonceSecrets (
  { dpop: { nonceSecret, replay } }: Settings,
  { randomBytes }: Surroundings,
  onEvent: (event: GuardEvent) => void
): Buffer[] {
  if (nonceSecret) return nonceSecret.map(text => Buffer.from(text, 'base64url'))
  // With a common store, other instances could accept these nonces too.
  if (replay !== 'memory' && replay !== 'off') onEvent({ name: 'nonce_secret_random' })
  return [randomBytes(32)]
}

/** What an operator should look at. */
const WARNINGS: ReadonlySet<GuardEvent['name']> = new Set([
  'keys_fetch_failed',
  'keys_expired',
  'keys_private',
  'issuers_unavailable',
  'replay_unavailable',
  'replay_policy_unknown',
  'nonce_secret_random',
  'affinity_missing',
  'revocation_unavailable',
  'revocation_refused',
  'stream_changed',
  'stream_without_subjects',
  'stream_unchangeable',
  'stream_redirected',
  'event_ahead'
])

/** What the name of an event does not say. */
const SENTENCES: { readonly [Name in GuardEvent['name']]?: string } = {
  affinity_missing: AFFINITY_MISSING,
  stream_without_subjects:
    'The transmitter sends nothing until subjects are added to its stream: its default_subjects is NONE',
  stream_unchangeable:
    'The stream is not all that is wanted, and its transmitter cannot change it; it is used as it is',
  stream_redirected: 'The stream went elsewhere until now; it was the only one, and is delivered here now',
  event_ahead: 'An event is dated ahead: until then it refuses tokens, unless an operator undoes it'
}

/** The level and the sentence of the log line for an event. */
export function describeEvent ({ name }: GuardEvent): { readonly level: 'warn' | 'info', readonly sentence: string } {
  return { level: WARNINGS.has(name) ? 'warn' : 'info', sentence: SENTENCES[name] ?? name.replaceAll('_', ' ') }
}
