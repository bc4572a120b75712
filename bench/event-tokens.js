import { createSigner, seconds, unique } from './tokens.js'

/** The client id of logout tokens, and the audience of security event tokens. */
export const RECEIVER = 'receiver'
/** The scope of operators. */
export const OPERATOR_SCOPE = 'revoke'
/**
 * The algorithms of security event tokens, with what each has to be tried against: the keys of the transmitter without
 * `kid`.
 */
export const EVENT_ALGS = ['RS256', 'PS256', 'ES256', 'EdDSA', 'Ed25519']
/** The type of the events. */
export const TYPE = 'https://schemas.openid.net/secevent/caep/event-type/session-revoked'
const LOGOUT = 'http://schemas.openid.net/event/backchannel-logout'

/** A user, as the subject of an event. */
export const createUsers = ({ issuer }) => n => ({ format: 'iss_sub', iss: issuer, sub: `revoked|${n}` })

/** Signs security event tokens (RFC 8417) and logout tokens, which are accepted unless something is overridden. */
export const createEventTokens = provider => {
  const { issuer } = provider
  const signAs = createSigner(provider)
  const user = createUsers(provider)
  return {
    set: ({ alg = 'RS256', header, claims, event = {} } = {}) =>
      signAs(alg, { typ: 'secevent+jwt', ...header }, {
        iss: issuer,
        aud: RECEIVER,
        jti: unique(),
        iat: seconds(),
        sub_id: user(0),
        events: { [TYPE]: event },
        ...claims
      }),
    logout: claims =>
      signAs('RS256', { typ: 'logout+jwt' }, {
        iss: issuer,
        aud: RECEIVER,
        jti: unique(),
        iat: seconds(),
        exp: seconds() + 120,
        sub: 'revoked|0',
        events: { [LOGOUT]: {} },
        ...claims
      })
  }
}
