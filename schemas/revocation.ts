/**
 * What the endpoints of revocations take and answer. The schemas only describe: a body that cannot be read is refused
 * in the form of each protocol.
 */
const string = { type: 'string' } as const
const subject = {
  type: 'object',
  description: 'RFC 9493, and the formats client, jkt and issuer.',
  required: ['format'],
  properties: {
    format: string,
    iss: string,
    sub: string,
    id: string,
    email: string,
    jti: string,
    client_id: string,
    jkt: string
  }
} as const
const object = <const P extends Record<string, object>>(description: string, properties: P) =>
  ({ type: 'object', description, required: Object.keys(properties), properties }) as const

const done = (description: string) => ({ description, type: 'null' }) as const
const stored = {
  description: 'It cannot be stored, or its keys cannot be had now. The same can be sent again.',
  type: 'object',
  properties: { statusCode: { type: 'integer' }, error: string, message: string }
} as const
const oauthError = object('It cannot be understood, or is not meant for this service.', {
  error: string,
  error_description: string
})
const setError = object('The token is refused (RFC 8935 section 2.4).', { err: string, description: string })

/** `POST /revocation/events` */
export const eventsSchema = {
  'x-body-credentials': 'a token signed by its transmitter',
  body: { ...string, description: 'A security event token: a JWT (RFC 8417).', examples: ['eyJ...'] },
  response: {
    202: done('The event has been stored. A repeat gets the same answer.'),
    400: setError,
    401: { ...setError, description: 'The Authorization header is not the configured one.' },
    503: stored
  }
} as const

/** `POST /revocation/logout` */
export const logoutSchema = {
  'x-body-credentials': 'a token signed by its provider',
  body: {
    type: 'object',
    required: ['logout_token'],
    properties: {
      logout_token: {
        ...string,
        description: 'A logout token: a JWT (OpenID Connect Back-Channel Logout 1.0 section 2.4).',
        examples: ['eyJ...']
      }
    }
  },
  response: { 200: done('The logout has been stored.'), 400: oauthError, 503: stored }
} as const

/** `POST /revocation/subjects` */
export const subjectsSchema = {
  body: {
    type: 'object',
    properties: {
      sub_id: subject,
      subject: { ...subject, description: 'An older name of sub_id.' },
      undo: { type: 'boolean', description: 'Lifts the revocation of the subject.' }
    },
    examples: [{ sub_id: { format: 'iss_sub', iss: 'https://tenant.example/', sub: 'user-1' } }]
  },
  response: {
    204: done('The revocation has been stored, whether the subject is known or not.'),
    400: oauthError,
    403: {
      ...oauthError,
      description: 'The token lacks the scope, or its owner may not act for the issuer of the subject.'
    }
  }
} as const
