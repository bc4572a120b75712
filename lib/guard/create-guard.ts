import { createCertificateReader } from '../certificate/client-certificate.ts'
import { createChallenges } from './challenge.ts'
import type { Challenges } from './challenge.ts'
import { createClientKeys } from '../dpop/client-keys.ts'
import type { ClientKeys } from '../dpop/client-keys.ts'
import { verifyProof } from '../dpop/proof.ts'
import { createNonces } from '../dpop/nonces.ts'
import type { Nonces } from '../dpop/nonces.ts'
import { createGuard } from './guard.ts'
import type { Guard, GuardOptions } from './guard.ts'
import { createIssuers } from './create-issuers.ts'
import type { IssuerEvent } from './create-issuers.ts'
import { createJudge } from './judge.ts'
import type { Judge } from './judge.ts'
import { createTransport } from '../provider/transport.ts'
import type { Transport } from '../provider/transport.ts'
import { createGuardTally, timeRecords, timeProofs, timeSignatures } from '../metrics/tallies.ts'
import type { GuardTally } from '../metrics/tallies.ts'
import type { Message } from '../message.ts'
import { createRateLimit } from './rate-limit.ts'
import type { Surroundings } from '../surroundings.ts'
import { createReplayStore } from '../replay/create-store.ts'
import type { ReplayStoreEvent } from '../replay/create-store.ts'
import type { ReplayStore } from '../replay/replay-store.ts'
import { metadataUrlOf } from './resource-metadata.ts'
import type { IssuerLookup } from '../settings/option-types.ts'
import type { Settings } from '../settings/settings.ts'
import { findGranters } from '../token/implied-scopes.ts'
import { forAudience } from '../token/issuer-table.ts'
import type { IssuerTable } from '../token/issuer-table.ts'
import { createSignatureVerifier, loadFastifyJwt } from '../token/jwt-signature.ts'
import { createJwtVerifier } from '../token/jwt-verifier.ts'
import { createVerifiedTokens } from '../token/verified-tokens.ts'
import type { VerifiedTokens } from '../token/verified-tokens.ts'
import type { TokenVerifier } from '../token/token-verifier.ts'
import { createPeerTrust } from '../url/peer-trust.ts'
import { createRequestUrlResolver } from '../url/request-url.ts'
import type { RequestUrl } from '../url/request-url.ts'

/** The guard and the parts behind it. Each process makes them once. */
export interface GuardParts {
  readonly guard: Guard
  /** Makes the same guard for tokens that are meant for another audience. It shares everything but the memory of verified tokens. */
  guardFor (audience: string): Guard
  /** Tells under which URL the client sent a request. */
  resolveUrl (message: Message): RequestUrl
  readonly judge: Judge
  readonly challenges: Challenges
  /** Undefined if the configured domain is unusable. */
  readonly issuers: IssuerTable | undefined
  readonly replay: ReplayStore
  readonly nonces: Nonces | undefined
  readonly verified: VerifiedTokens
  readonly clientKeys: ClientKeys
  /** What the guard has done, for metrics. Undefined if metrics are off. */
  readonly tally: GuardTally | undefined
  /** Starts to fetch keys in the background, and loads what the first tokens need. */
  start (): void
  close (): Promise<void>
}

export type GuardEvent = IssuerEvent | ReplayStoreEvent | { readonly name: 'nonce_secret_random' }

export interface GuardPartsOptions {
  readonly surroundings: Surroundings
  /** Names the issuers in place of the settings. */
  readonly lookUpIssuer?: IssuerLookup | undefined
  /** Called once for each change of state, for the log. */
  readonly onEvent: (event: GuardEvent) => void
  /**
   * The path under which the application is mounted. It is usually empty. That application serves the metadata of RFC 9728 beside
   * the guard, so challenges may point to it. Undefined if nobody serves the metadata.
   */
  readonly metadataMount: string | undefined
  /** The way to the identity provider. The default is the network, through the proxies of the settings. */
  readonly transport?: Transport | undefined
}

/** Verified tokens that are remembered for each further audience. */
const MAX_TOKENS_OF_AUDIENCE = 5000

/** Builds the guard from settings. */
export async function createGuardParts (settings: Settings, { surroundings, lookUpIssuer, onEvent, metadataMount, transport = networkOf(settings) }: GuardPartsOptions): Promise<GuardParts> {
  const { wallMs, steadyMs: nowMs } = surroundings
  const issuers = await createIssuers(settings, { surroundings, lookUpIssuer, transport, onEvent })
  const replay = await createReplayStore({ store: settings.DPOP_REPLAY, maxRecords: settings.DPOP_REPLAY_MAX, surroundings, onEvent })
  const nonces = settings.DPOP_NONCE === 'required' ? createNonces(nonceSecrets(settings, surroundings, onEvent)) : undefined
  const clientKeys = createClientKeys(settings.DPOP_ALGS, { nowMs })
  const verified = createVerifiedTokens()
  const tally = settings.METRICS === 'on' ? createGuardTally() : undefined
  const clockToleranceSeconds = settings.IDP_CLOCK_TOLERANCE_SECONDS
  const now = (): number => wallMs() / 1000

  const verifySignature = createSignatureVerifier()
  const timedSignature = tally ? timeSignatures(verifySignature, tally.tokens, nowMs) : verifySignature
  const tokensOf = (issuers: IssuerTable | undefined, verified: VerifiedTokens): TokenVerifier => createJwtVerifier({
    issuers,
    verifySignature: timedSignature,
    verified,
    clockToleranceSeconds
  })
  const resolveUrl = createRequestUrlResolver({ trustProxy: settings.trustProxy, publicUrl: settings.PUBLIC_URL })
  const common: Omit<GuardOptions, 'tokens'> = {
    mode: settings.dpopMode,
    proofs: {
      iatOffsetSeconds: settings.IDP_DPOP_IAT_OFFSET_SECONDS,
      iatLeewaySeconds: settings.IDP_DPOP_IAT_LEEWAY_SECONDS,
      keys: clientKeys,
      replay: tally && replay.state().kind === 'redis' ? timeRecords(replay, tally.records, nowMs) : replay,
      nonces,
      nonceIat: settings.DPOP_NONCE_IAT
    },
    verifyProof: tally ? timeProofs(verifyProof, tally.proofs, nowMs) : verifyProof,
    rateLimit: settings.rateLimit === undefined ? undefined : createRateLimit({ max: settings.rateLimit, nowMs }),
    resolveUrl: message => message.received.clientUrl ?? resolveUrl(message),
    readCertificate: createCertificateReader({ source: settings.CLIENT_CERTIFICATE, isTrustedPeer: createPeerTrust(settings.trustProxy) }),
    now
  }

  return {
    guard: createGuard({ ...common, tokens: tokensOf(issuers, verified) }),
    // A memory of its own: a token that was verified for one audience must not pass for another.
    guardFor: audience => createGuard({ ...common, tokens: tokensOf(issuers && forAudience(issuers, audience), createVerifiedTokens(MAX_TOKENS_OF_AUDIENCE)) }),
    resolveUrl,
    judge: createJudge({ granters: findGranters(settings.IDP_SCOPE_IMPLIES ?? {}), clockToleranceSeconds, now }),
    challenges: createChallenges({ mode: settings.dpopMode, algs: settings.DPOP_ALGS, resourceMetadataUrl: metadataMount === undefined ? undefined : metadataUrlOf(settings, metadataMount) }),
    issuers,
    replay,
    nonces,
    verified,
    clientKeys,
    tally,
    start () {
      issuers?.start()
      loadFastifyJwt()
    },
    async close () {
      await Promise.all([issuers?.close(), replay.close()])
    }
  }
}

function networkOf (settings: Settings): Transport {
  return createTransport({ httpProxy: settings.HTTP_PROXY, httpsProxy: settings.HTTPS_PROXY, noProxy: settings.NO_PROXY })
}

function nonceSecrets ({ DPOP_NONCE_SECRET }: Settings, { randomBytes }: Surroundings, onEvent: (event: GuardEvent) => void): Buffer[] {
  if (DPOP_NONCE_SECRET) return DPOP_NONCE_SECRET.map(text => Buffer.from(text, 'base64url'))
  onEvent({ name: 'nonce_secret_random' })
  return [randomBytes(32)]
}
