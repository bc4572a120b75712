export const TERMINAL = 'Look at the terminal in which npm run dev runs.'

/**
 * What an answer means for what was tried: `tone` is good, bad or neutral. A refusal stops an attack only if it has a
 * reason that the attack is made to provoke.
 */
export function judge (
  { reasons, passed, ends, hasStarted = true },
  exchange,
  { reason, description } = {},
  { issuer, asksForNonces }
) {
  const { status, url } = exchange
  const says = description ?? ''
  if (status === 0) {
    return {
      tone: 'bad',
      word: 'No answer',
      says: `The API at ${new URL(url).origin} does not answer, or does not let this page read the answer. ${TERMINAL}`
    }
  }
  if (status === 429 || status >= 500) {
    const cause = reason === 'keys_unavailable'
      ? `The API cannot get the keys of the identity provider at ${issuer}. ${TERMINAL}`
      : says
    return { tone: 'neutral', word: 'Not decided', says: cause }
  }
  const isAccepted = status < 300
  if (ends) {
    if (reason === 'token_revoked') return { tone: 'good', word: 'Ended', says }
    return { tone: 'bad', word: isAccepted ? 'Still accepted' : 'Refused for another reason', says }
  }
  if (reasons === undefined) {
    return isAccepted
      ? { tone: 'good', word: 'Accepted', says }
      : { tone: 'bad', word: 'Refused', says }
  }
  if (!hasStarted) {
    return {
      tone: 'neutral',
      word: 'The attack did not start',
      says: `The good request before it was refused. ${says}`
    }
  }
  if (isAccepted && passed !== undefined && !asksForNonces) {
    return { tone: 'neutral', word: 'Nothing to stop', says: passed }
  }
  if (isAccepted) return { tone: 'bad', word: 'Not stopped', says: 'The API accepted the request.' }
  if (reasons.includes(reason)) return { tone: 'good', word: 'Stopped', says }
  return {
    tone: 'neutral',
    word: 'Refused for another reason',
    says: `${says} This proves nothing about the attack.`.trim()
  }
}

/** Advice for visitors of this page; the advice for other clients is in the explanation. */
const ADVICE = {
  credentials_missing: 'Nobody is logged in, so this page sent no token. Log in, then call again.',
  scope_missing: 'The token lacks a permission. Choose a user who has it, tick it, and log in again.',
  acr_missing:
    'The route requires another kind of login. The button below requests it from the provider. Then call again.',
  authentication_too_old:
    'The route requires a more recent login. The button below requests one from the provider. Then call again.',
  token_revoked: 'The token has been revoked. Log in again.',
  token_expired: 'The token has expired. Log in again.',
  token_issuer: 'The token comes from another provider. Log in again.',
  token_key_unknown: 'The token comes from a provider that no longer runs. Log in again.',
  token_signature: 'The token comes from a provider that no longer runs. Log in again.',
  scheme_not_offered: 'The service does not accept this scheme. The mode of the service decides that (IDP_DPOP_MODE).',
  keys_unavailable: 'The API retries by itself until the provider responds.'
}

export const adviceFor = ({ reason, advice } = {}) => ADVICE[reason] ?? advice

/**
 * The login that an answer requires, as parameters of the authorization request (RFC 9470 section 3); undefined if it
 * requires none.
 */
export function loginAskedFor ({ received }) {
  const challenge = received['www-authenticate'] ?? ''
  if (!challenge.includes('error="insufficient_user_authentication"')) return undefined
  const values = ['acr_values', 'max_age'].map(name => [name, new RegExp(`\\b${name}="([^"]*)"`).exec(challenge)?.[1]])
  return Object.fromEntries(values.filter(([, value]) => value !== undefined))
}

/** The scopes that a 403 names as needed (RFC 6750 section 3); undefined if it names none. */
export function scopesAskedFor ({ 'www-authenticate': challenge = '' }) {
  if (!challenge.includes('error="insufficient_scope"')) return undefined
  return /\bscope="([^"]+)"/.exec(challenge)?.[1].split(' ')
}
