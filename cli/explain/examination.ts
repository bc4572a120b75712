import type { Credentials } from '../../lib/guard/credentials.ts'
import { createClientKeys } from '../../lib/guard/dpop/client-keys.ts'
import { createNonces, NONCE_LIFETIME_SECONDS, processOfNonce, type Nonces } from '../../lib/guard/dpop/nonces.ts'
import type { PresentedProof, ProofPolicy } from '../../lib/guard/dpop/proof.ts'
import type { JsonObject } from '../../lib/base/json.ts'
import { Message } from '../../lib/guard/message.ts'
import type { SignerKeys, SigningKey } from '../../lib/guard/jose/signed-jwt.ts'
import type { ReplayStore } from '../../lib/guard/replay/replay-store.ts'
import type { Revocation } from '../../lib/revocation/view.ts'
import type { Revocations } from '../../lib/revocation/revocations.ts'
import type { IssuerSettings, Settings } from '../../lib/settings/settings.ts'
import { rulesOfIssuer } from '../../lib/assembly/create-issuers.ts'
import type { Inquiry } from '../../lib/guard/token/inquiry.ts'
import type { TokenRules } from '../../lib/guard/token/jwt-checks.ts'
import { createJudge, type Judge } from '../../lib/guard/requirement/judge.ts'
import type { Requirement } from '../../lib/guard/requirement/requirement.ts'
import { createScopeGranters, type ScopeGranters } from '../../lib/guard/requirement/implied-scopes.ts'
import type { VerifiedToken } from '../../lib/guard/token/verified-tokens.ts'
import { createRequestUrlResolver, type RequestUrl } from '../../lib/guard/url/request-url.ts'
import { readHeaders, type CapturedRequest } from './captured-request.ts'

/** The settings that decide about a request. */
type GuardSettings = Pick<Settings, 'idp' | 'dpop' | 'server' | 'revocation'>

export interface ExplainOptions {
  readonly settings: GuardSettings
  /** The time to judge at. Unix seconds. */
  readonly now: number
  /** The keys of an issuer, or undefined if they are unknown: then signatures of tokens are not checked. */
  readonly keys?: (issuer: IssuerSettings) => Promise<SignerKeys> | SignerKeys
  /**
   * Asks an issuer about tokens, for the issuers that have introspection. Absent if no calls are allowed: then
   * whether a token is active, and everything about an opaque token, is not checked.
   */
  readonly introspect?: (issuer: IssuerSettings) => Promise<Pick<Inquiry, 'claimsOf' | 'confirm'>>
  /** What has been revoked, or a sentence that says why that is not known. Absent if only the running service knows. */
  readonly revocations?: Pick<Revocations, 'refusalOf'> | string
  /** What the route needs. Empty for any valid token. Absent if it is unknown. */
  readonly requirements?: readonly Requirement[]
  /** The proofs that have passed before, or undefined if they are unknown: then replays are not checked. */
  readonly replay?: ReplayStore
  /** The nonce of the answer, if that is known: it names the process that answered. */
  readonly answeredNonce?: string
  /**
   * The names of checks on the token's claims that are left out, because the settings of the service for them are
   * unknown.
   */
  readonly unknown?: readonly string[]
  /** Gets the claims of the token, once they are read. */
  readonly onClaims?: (claims: JsonObject | undefined) => void
}

/** A request during the explanation, with the findings of the checks so far. */
export interface Examination {
  readonly request: CapturedRequest
  readonly options: ExplainOptions
  readonly message: Message
  /** The issuer of the token. If there are several, its `iss` chooses. Undefined until then. */
  issuer: IssuerSettings | undefined
  readonly policy: Omit<ProofPolicy, 'replay'>
  readonly resolveUrl: () => RequestUrl
  /** Nonces are required, but the secret that makes them is unknown here. */
  readonly noncesAreUnknown: boolean
  readonly judge: Judge
  readonly granters: ScopeGranters
  /** The route lets a request without credentials pass, and this is one. There is nothing else to check. */
  isGuest?: true
  credentials?: Credentials
  token?: { readonly text: string, readonly now: number, header?: JsonObject, claims?: JsonObject }
  /** The token is no JWT, and an issuer has such tokens. */
  isOpaque?: true
  /** The opaque token was not introspected, so `verified` has none of its claims. */
  areClaimsUnknown?: boolean
  /** How many keys may have signed the token. */
  candidates?: number
  /** The result of `signerOf`: the key that has signed it, or undefined if keys are unknown. */
  signer?: SigningKey | 'signature'
  verified?: VerifiedToken
  /** What has revoked the token. */
  revokedBy?: Revocation
  proof?: PresentedProof
}

export function createExamination (request: CapturedRequest, options: ExplainOptions): Examination {
  const { settings } = options
  const resolve = createRequestUrlResolver({
    trustProxy: settings.server.trustProxy,
    publicUrl: settings.server.publicUrl
  })
  const { method, target, encrypted, remoteAddress } = request
  const message = new Message({
    method,
    url: target,
    ...readHeaders(request),
    socket: { encrypted, remoteAddress }
  })
  const granters = createScopeGranters(settings.idp.scopeImplies ?? {})
  return {
    request,
    options,
    message,
    issuer: settings.idp.issuers.length === 1 ? settings.idp.issuers[0] : undefined,
    policy: {
      iatOffsetSeconds: settings.idp.dpopIatOffsetSeconds,
      iatLeewaySeconds: settings.idp.dpopIatLeewaySeconds,
      keys: createClientKeys(settings.dpop.algs, { nowMs: () => 0 }),
      nonces: noncesOf(options),
      nonceIat: settings.dpop.nonceIat
    },
    resolveUrl: () => resolve(message),
    noncesAreUnknown: settings.dpop.nonce === 'required' && settings.dpop.nonceSecret === undefined,
    judge: createJudge({ granters, clockToleranceSeconds: settings.idp.clockToleranceSeconds, now: () => options.now }),
    granters
  }
}

/** The rules for tokens of the issuer. */
export function rulesOf ({ issuer, options }: Examination): TokenRules {
  return rulesOfIssuer(issuer!, options.settings)
}

function noncesOf ({ settings: { dpop: { nonce, nonceSecret } }, answeredNonce }: ExplainOptions): Nonces | undefined {
  if (nonce !== 'required') return undefined
  return nonceSecret === undefined
    ? unknownNonces(answeredNonce)
    : createNonces(nonceSecret.map(text => Buffer.from(text, 'base64url')), 'shared')
}

/**
 * Accepts any nonce as a new one, unless the answer shows that another process made it. The step that needs it reports
 * that the nonce could not be checked. The checks of a proof do not ask for the newest nonce.
 */
function unknownNonces (answeredNonce = ''): Nonces {
  const answering = processOfNonce(answeredNonce)
  const isOfAnotherProcess = (nonce: string) => {
    return answering !== undefined && ![undefined, answering].includes(processOfNonce(nonce))
  }
  return {
    expiryOf: (nonce: string, now: number) => isOfAnotherProcess(nonce) ? undefined : now + NONCE_LIFETIME_SECONDS,
    isOfAnotherProcess
  } as Nonces
}
