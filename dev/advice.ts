import { REFUSALS } from '../lib/refusal.ts'
import type { RefusalReason } from '../lib/refusal.ts'
import type { Exchange } from './exchange.ts'

/** What to do about each reason, in the words of the one who makes the call. */
const CURES: Partial<Record<RefusalReason, string>> = {
  credentials_missing: 'Send a token: drop --no-token.',
  scheme_not_offered: 'The service takes another scheme: with DPOP_REQUIRED=true it takes DPoP alone (--dpop), with DPOP_ENABLED=false Bearer alone.',
  token_issuer: 'The service trusts another issuer: compare iss above with its IDP_DOMAIN or IDP_ISSUER.',
  token_audience: 'The service expects another audience: compare aud above with its IDP_AUDIENCE, character by character.',
  token_expired: 'Get a new token; if it is new, compare the clocks.',
  token_algorithm: 'Set the signing algorithm of the API to RS256 at the provider.',
  token_malformed: 'The token is opaque or encrypted. Many providers give a JWT only when the audience of a registered API is asked for (--audience).',
  token_key_unknown: 'The service reads its keys from another place than this provider signs with, or the provider changed its keys.',
  token_bound: 'The token is bound to a key: send it as DPoP, with a proof (--dpop).',
  token_unbound: 'The provider gave an unbound token although a proof came with the token request: switch DPoP on at the provider, for this client and API.',
  domain_has_scheme: 'Take the https:// off IDP_DOMAIN of the service.',
  htu_mismatch: 'The service sees another URL than the one called. Behind a proxy: does it pass Host on with its port, X-Forwarded-Proto, X-Forwarded-Host and X-Forwarded-Prefix, and is TRUST_PROXY set to its address? Else set PUBLIC_URL. The log line of the refusal holds both URLs.',
  htm_mismatch: 'Something between changed the method.',
  iat_too_old: 'The clock here is behind that of the service.',
  iat_in_future: 'The clock here is ahead of that of the service.',
  proof_algorithm: 'Sign the proof with an algorithm of the algs in the challenge (--alg).',
  proof_replayed: 'A proof is good for one request: something between sent the request twice.',
  nonce_stale: 'Two instances with different DPOP_NONCE_SECRET? Each must have the same.',
  scope_missing: 'Ask for the permission (--scope); if it is not in the token above although asked for, grant it to the client at the provider. If it is there in another claim, see IDP_SCOPE_CLAIMS.',
  keys_unavailable: 'The service cannot reach the identity provider: /health/ready and its log say more.'
}

const CURES_BY_ERROR: Record<string, string> = {
  invalid_token: 'The service does not accept this token: compare iss, aud and exp above with its settings.',
  invalid_dpop_proof: 'The service does not accept the proof: compare htu, htm and iat above with what it sees.',
  insufficient_scope: 'The token lacks a permission: ask for it (--scope).',
  use_dpop_nonce: 'The service asks for a nonce again and again.'
}

export interface Advice {
  /** The reason under which this service logs the refusal, where its answer tells. */
  reason: string | undefined
  text: string
}

/** Why the service refused, told from its answer alone, and what to do about it. */
export function advise ({ status, headers, body }: Exchange): Advice | undefined {
  if (status >= 200 && status < 300) return undefined
  const challenge = headers.get('www-authenticate') ?? ''
  const reason = reasonOf(challenge, body)
  const cure = reason === undefined ? undefined : CURES[reason]
  if (cure !== undefined) return { reason, text: cure }
  const error = /\berror="([a-z_]+)"/.exec(challenge)?.[1]
  const general = error === undefined ? undefined : CURES_BY_ERROR[error]
  if (reason !== undefined) return { reason, text: general ?? REFUSALS[reason].description }
  if (general !== undefined) return { reason: undefined, text: general }
  if (status === 401) return { reason: undefined, text: 'No error is named: the service did not find a token that it could use.' }
  if (status === 404) return { reason: undefined, text: 'There is no such path: is the prefix of a proxy missing in --url?' }
  return undefined
}

/** Each reason has one public sentence, so the sentence names the reason. */
function reasonOf (challenge: string, body: string): RefusalReason | undefined {
  const reasons = Object.keys(REFUSALS) as RefusalReason[]
  return reasons.find((reason) => challenge.includes(`"${REFUSALS[reason].description}"`)) ??
    reasons.find((reason) => body.includes(JSON.stringify(REFUSALS[reason].description)))
}
