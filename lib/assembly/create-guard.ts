import { createCertificateReader, type CertificateReader } from '../guard/certificate/client-certificate.ts'
import { createChallenges, type Challenges } from '../guard/challenge.ts'
import { createClientKeys } from '../guard/dpop/client-keys.ts'
import { verifyProof } from '../guard/dpop/proof.ts'
import { createNonces } from '../guard/dpop/nonces.ts'
import { createAffinityWatch } from '../guard/affinity.ts'
import { createGuard, type Guard, type GuardOptions } from '../guard/guard.ts'
import { createIssuers, type IssuerPartOptions } from './create-issuers.ts'
import { createIssuersOfFunction } from './issuers-of-function.ts'
import { createJudge } from '../guard/requirement/judge.ts'
import { createGuardTally } from '../report/metrics/tallies.ts'
import { timeProofs, timeRecords, timeSignatures } from '../report/metrics/timings.ts'
import { createObserving, type Observing } from '../guard/observing.ts'
import { createRateLimit } from '../guard/rate-limit.ts'
import type { Surroundings } from '../base/surroundings.ts'
import { createRevocation, pushUrlOf } from './create-revocation.ts'
import type { GuardEvent } from './guard-events.ts'
import { createTokenSignals } from '../guard/request-auth.ts'
import { Refusal } from '../refusal.ts'
import { createReplayStore } from '../guard/replay/create-store.ts'
import type { ReplayStore } from '../guard/replay/replay-store.ts'
import { metadataUrlOf } from './resource-metadata.ts'
import type { AppFunctions } from '../settings/options.ts'
import type { Settings } from '../settings/settings.ts'
import { createScopeGranters } from '../guard/requirement/implied-scopes.ts'
import { createJwtVerifier, type JwtVerifierOptions } from '../guard/token/jwt-verifier.ts'
import { createVerifiedTokens } from '../guard/token/verified-tokens.ts'
import { createClientAddress, createPeerTrust } from '../guard/url/base-url.ts'
import { createRequestUrlResolver } from '../guard/url/request-url.ts'

/** The guard and the parts behind it. Each process makes them once. */
export type GuardParts = Awaited<ReturnType<typeof createGuardParts>>

export interface GuardPartsOptions extends Omit<IssuerPartOptions, 'settings'>, AppFunctions {
  /** Called once for each change of state, for the log. */
  readonly onEvent: (event: GuardEvent) => void
  /**
   * The path under which the application is mounted. It is usually empty. That application serves the metadata of RFC
   * 9728 beside the guard, so challenges may point to it. It is undefined if the metadata is not served.
   */
  readonly metadataMount: string | undefined
  /** The path under which the guard is mounted. Empty unless given. */
  readonly mount?: string
  /** Takes the place of what the settings say about certificates. */
  readonly readCertificate?: CertificateReader
}

/** Verified tokens that are remembered for each further audience. */
const MAX_TOKENS_OF_AUDIENCE = 5000

/** Builds the guard from settings. */
export async function createGuardParts (
  settings: Settings,
  {
    surroundings,
    jwtTools,
    lookUpIssuer,
    maxIssuers,
    onEvent,
    metadataMount,
    mount,
    transport,
    trustPeer,
    readCertificate
  }: GuardPartsOptions
) {
  const { idp, dpop, server } = settings
  const { now, steadyMs: nowMs } = surroundings
  const observing = server.observe === 'off' ? undefined : createObserving(server.observe, surroundings)
  const parts = { surroundings, settings, jwtTools, transport, onEvent, observing }
  const issuers = lookUpIssuer
    ? createIssuersOfFunction(lookUpIssuer, { maxIssuers }, parts)
    : await createIssuers(parts)
  const store = await createReplayStore({ store: dpop.replay, maxRecords: dpop.replayMax, surroundings, onEvent })
  const replay = observing ? withoutWaiting(store, observing) : store
  const nonces = dpop.nonce === 'required'
    ? createNonces(
      nonceSecrets(dpop, surroundings, onEvent),
      dpop.replay === 'memory' ? 'process' : 'shared'
    )
    : undefined
  const watch = nonces && dpop.replay === 'memory'
    ? createAffinityWatch({ nowMs, onEvent })
    : (guard: Guard) => guard
  const clientKeys = createClientKeys(dpop.algs, { nowMs })
  const verified = createVerifiedTokens()
  const tally = server.metrics === 'on' ? createGuardTally() : undefined
  const clockToleranceSeconds = idp.clockToleranceSeconds

  const revocation = await createRevocation({
    ...parts,
    isOpen: lookUpIssuer !== undefined,
    pushUrl: pushUrlOf(server.publicUrl, mount)
  }).catch(async error => {
    // A start that fails leaves nothing open.
    await store.close()
    throw error
  })
  const revocationOf = revocation?.revocations.refusalOf

  const plainFinder = jwtTools.createSignerFinder()
  const findSigner = tally ? timeSignatures(plainFinder, tally.tokens, nowMs) : plainFinder
  const signals = createTokenSignals({ revocationOf, clockToleranceSeconds, observing, now, every: surroundings.every })
  const trustProxy = trustPeer ?? server.trustProxy
  const common: Omit<GuardOptions, 'tokens'> = {
    mode: idp.dpopMode,
    proofs: {
      iatOffsetSeconds: idp.dpopIatOffsetSeconds,
      iatLeewaySeconds: idp.dpopIatLeewaySeconds,
      keys: clientKeys,
      replay: tally && replay.state().kind === 'redis' ? timeRecords(replay, tally.records, nowMs) : replay,
      nonces,
      nonceIat: dpop.nonceIat
    },
    verifyProof: tally ? timeProofs(verifyProof, tally.proofs, nowMs) : verifyProof,
    rateLimit: server.rateLimit === undefined
      ? undefined
      : createRateLimit({ max: server.rateLimit, nowMs }),
    resolveUrl: createRequestUrlResolver({ trustProxy, publicUrl: server.publicUrl }),
    readCertificate: readCertificate ??
      createCertificateReader({
        source: server.clientCertificate,
        isTrustedPeer: createPeerTrust(trustProxy)
      }),
    now
  }
  const guardOf = (parts: Pick<JwtVerifierOptions, 'audiences' | 'verified'>) =>
    watch(
      createGuard({
        ...common,
        tokens: createJwtVerifier({ ...parts, issuers, findSigner, revocationOf, clockToleranceSeconds })
      })
    )

  return {
    guard: guardOf({ verified }),
    /**
     * Makes the same guard for tokens that are meant for other audiences. It shares everything but the memory of
     * verified tokens: a token that was verified for one audience must not pass for another.
     */
    guardFor: (audiences: readonly string[]) =>
      guardOf({ audiences, verified: createVerifiedTokens(MAX_TOKENS_OF_AUDIENCE) }),
    judge: createJudge({ granters: createScopeGranters(idp.scopeImplies ?? {}), clockToleranceSeconds, now }),
    /**
     * @param audience the one that a token needs, if it is not the configured one. Challenges lead to metadata by which
     * a client gets such a token.
     */
    challengesFor: (audience?: string): Challenges =>
      createChallenges({
        mode: idp.dpopMode,
        algs: dpop.algs,
        resourceMetadataUrl: metadataMount === undefined ? undefined : metadataUrlOf(settings, metadataMount, audience)
      }),
    /** Absent if the configured domain is unusable. */
    issuers,
    replay,
    /** The address of the client of a request, as trusted proxies say it. */
    addressOf: createClientAddress(trustProxy),
    /** Absent if each refusal is enforced from the start. */
    observing,
    nonces,
    verified,
    clientKeys,
    signals,
    /** Absent if nothing can be revoked. */
    revocation,
    /** What the guard has done, for metrics, or undefined if metrics are off. */
    tally,
    /** Starts to fetch keys in the background, and loads what the first tokens need. */
    start () {
      issuers?.start()
      revocation?.start()
      jwtTools.load()
    },
    async close () {
      signals.close()
      await Promise.all([issuers?.close(), replay.close(), revocation?.close()])
    }
  }
}

/** While a store is known to fail and requests are only observed, none waits for it. The store itself tries on. */
function withoutWaiting (store: ReplayStore, { isOn }: Observing): ReplayStore {
  return {
    ...store,
    record (...args) {
      const { ready, reason } = store.state()
      if (ready || reason === 'connecting' || !isOn()) return store.record(...args)
      args[3](new Refusal('replay_unavailable'))
    }
  }
}

function nonceSecrets (
  { nonceSecret, replay }: Settings['dpop'],
  { randomBytes }: Surroundings,
  onEvent: (event: GuardEvent) => void
): Buffer[] {
  if (nonceSecret) return nonceSecret.map(text => Buffer.from(text, 'base64url'))
  // With a common store, other instances could accept these nonces too.
  if (replay !== 'memory' && replay !== 'off') onEvent({ name: 'nonce_secret_random' })
  return [randomBytes(32)]
}
