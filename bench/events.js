import { createEventTokens, createUsers, EVENT_ALGS, OPERATOR_SCOPE, TYPE } from './event-tokens.js'
import { HOST } from './provider.js'
import { createMint, nested, part, tamper, unique } from './tokens.js'

const EVENTS = '/revocation/events'
const LOGOUTS = '/revocation/logout'
const SUBJECTS = '/revocation/subjects'
const SET_TYPE = 'application/secevent+jwt'
const FORM_TYPE = 'application/x-www-form-urlencoded'
/** Just below the 64 KiB that are read, of a logout token 16 KiB, encoded: what a payload of JSON may have. */
const MOST = 48_000
const MOST_OF_LOGOUT = 12_000
/** A part of a JWT that is no JSON. */
const ANY = Buffer.from('x').toString('base64url')

const post = (path, type, body, lines = []) => {
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(body)
  return Buffer.concat([
    Buffer.from(
      [
        `POST ${path} HTTP/1.1`,
        `Host: ${HOST}`,
        `Content-Type: ${type}`,
        `Content-Length: ${bytes.length}`,
        ...lines,
        '',
        ''
      ].join('\r\n')
    ),
    bytes
  ])
}

/** As many chunks as are taken, the last of them with the rest: more are 413, and the connection is closed. */
const inPieces = (path, type, body) => {
  const parts = [...body.slice(0, 255), body.slice(255)]
  return Buffer.from(
    [`POST ${path} HTTP/1.1`, `Host: ${HOST}`, `Content-Type: ${type}`, 'Transfer-Encoding: chunked', '', ''].join(
      '\r\n'
    ) + parts.map(part => `${part.length.toString(16)}\r\n${part}\r\n`).join('') + '0\r\n\r\n'
  )
}

/**
 * What is sent to the endpoints of revocation: accepted security event tokens, logout tokens and subjects, and at their
 * largest those that are refused or that hold much. Left out is what is answered with the end of the connection: bodies
 * above 64 KiB, in more pieces, and subjects of too many values, which are not parsed. `like` names what each is
 * compared with. The service is that of `hostile-events.js`.
 */
export const createEventKinds = provider => {
  const { set, logout } = createEventTokens(provider)
  const user = createUsers(provider)
  const operator = [`Authorization: Bearer ${createMint(provider)({ scope: OPERATOR_SCOPE })}`]
  const aliases = number => ({ format: 'aliases', identifiers: Array.from({ length: number }, (_, n) => user(n)) })
  const many = {
    format: 'aliases',
    identifiers: Array.from({ length: 1_000 }, (_, n) => ({ format: 'opaque', id: `${n}` }))
  }
  const complex = number =>
    Object.fromEntries(
      ['user', 'device', 'session', 'application', 'tenant', 'org_unit', 'group'].map(name => [name, aliases(number)])
    )

  const accepted = (status, make) => ({ status, error: undefined, fresh: true, of: 'events', make })
  const hostile = (like, status, make, more) => ({
    status,
    error: undefined,
    fresh: false,
    of: 'events',
    like,
    make,
    ...more
  })
  const push = make => i => post(EVENTS, SET_TYPE, make(i))
  const form = make => i => post(LOGOUTS, FORM_TYPE, make(i))
  const subject = (body, lines = operator) => () =>
    post(SUBJECTS, 'application/json', typeof body === 'string' ? body : JSON.stringify(body), lines)
  const refusedSet = (make, more) => hostile('event RS256', 400, push(make), more)
  const large = { large: true }
  const repeated = set({ claims: { jti: 'repeated' } })

  const bySignature = EVENT_ALGS.flatMap(alg => [
    [`event ${alg}`, accepted(202, push(() => set({ alg })))],
    [`event ${alg}, signature wrong`, hostile(`event ${alg}`, 400, push(() => tamper(set({ alg }))))],
    [
      `event ${alg}, forged, no kid`,
      hostile(`event ${alg}`, 400, push(() => tamper(set({ alg, header: { kid: undefined } }))))
    ],
    [
      `event ${alg}, forged, no kid, 64 KB`,
      hostile(
        `event ${alg}`,
        400,
        push(() => tamper(set({ alg, header: { kid: undefined }, claims: { pad: 'x'.repeat(MOST) } }))),
        large
      )
    ]
  ])

  return {
    ...Object.fromEntries(bySignature),
    'event unsigned': refusedSet(() => set({ header: { alg: 'none' } })),
    'event of an unknown kid': refusedSet(() => set({ header: { kid: unique() } })),
    'event of another issuer': refusedSet(() => set({ claims: { iss: 'https://other.example.test' } })),
    'event for another audience': refusedSet(() => set({ claims: { aud: 'other' } })),
    'event for 10,000 audiences': refusedSet(
      () => set({ claims: { aud: Array.from({ length: 10_000 }, () => 'a') } }),
      large
    ),
    'event of 1,000 types': refusedSet(
      () =>
        set({
          claims: {
            events: Object.fromEntries(Array.from({ length: 1_000 }, (_, n) => [`${TYPE}${n}`.slice(-40), {}]))
          }
        }),
      large
    ),
    'event sent again': hostile('event RS256', 202, push(() => repeated)),
    'event with the jti of another': hostile(
      'event RS256',
      202,
      push(i => set({ claims: { jti: 'repeated', sub_id: user(i) } }))
    ),
    'event of 100 identifiers': hostile(
      'event RS256',
      202,
      push(() => set({ claims: { sub_id: aliases(100) } })),
      large
    ),
    'event of 1,000 identifiers': refusedSet(() => set({ claims: { sub_id: many } }), large),
    'event of seven members of 14 identifiers': hostile(
      'event RS256',
      202,
      push(() => set({ claims: { sub_id: complex(14) } })),
      large
    ),
    'event of seven members of 90 identifiers': refusedSet(() => set({ claims: { sub_id: complex(90) } }), large),
    'event of seven nested members': refusedSet(() => set({ claims: { sub_id: { user: { user: {} } } } })),
    'event of 64 KB, signed': hostile(
      'event RS256',
      202,
      push(() => set({ claims: { pad: 'x'.repeat(MOST) } })),
      large
    ),
    'event of 64 KB of brackets': refusedSet(
      () => `${part({ alg: 'RS256' })}.${nested(MOST)}.${ANY}`,
      large
    ),
    'event of 64 KB of brackets in its header': refusedSet(
      () => `${nested(MOST)}.${part({})}.${ANY}`,
      large
    ),
    'event of 64 KB of members': refusedSet(
      () =>
        set({
          claims: Object.fromEntries(Array.from({ length: 4_000 }, (_, n) => [`m${n}`, 0])),
          header: { alg: 'none' }
        }),
      large
    ),
    'event of 64 KB that is no JWT': refusedSet(() => 'x'.repeat(64_000), large),
    'event of 64 KB in broken base64': refusedSet(() => `${'x'.repeat(32_000)}.${'*'.repeat(31_000)}.x`, large),
    'event of 64 KB of white space': refusedSet(() => ' '.repeat(64_000) + 'x', large),
    'event of 64 KB that is no UTF-8': refusedSet(() => Buffer.alloc(64_000, 0xff), large),
    'event of another content type': hostile('event RS256', 415, () => post(EVENTS, 'application/json', '{}')),
    'event in 256 pieces': hostile('event RS256', 400, () => inPieces(EVENTS, SET_TYPE, tamper(set())), large),

    logout: accepted(200, form(() => `logout_token=${logout()}`)),
    'logout with a nonce': hostile('logout', 400, form(() => `logout_token=${logout({ nonce: 'n' })}`)),
    'logout, signature wrong': hostile('logout', 400, form(() => `logout_token=${tamper(logout())}`)),
    'logout of 16 KB, signature wrong': hostile(
      'logout',
      400,
      form(() => `logout_token=${tamper(logout({ pad: 'x'.repeat(MOST_OF_LOGOUT - 500) }))}`),
      large
    ),
    'logout in a form of 8,000 members': hostile('logout', 400, form(() => 'a&'.repeat(8_000)), large),
    'logout in a form of 16 KB of escapes': hostile(
      'logout',
      400,
      form(() => `logout_token=${'%41'.repeat(5_400)}`),
      large
    ),
    'logout with two tokens': hostile('logout', 400, form(() => `logout_token=${logout()}&logout_token=${logout()}`)),
    'logout with 1,200 tokens': hostile('logout', 400, form(() => 'logout_token&'.repeat(1_200)), large),

    subject: accepted(204, subject({ sub_id: user(0) })),
    'subject without credentials': hostile('subject', 401, subject({ sub_id: user(0) }, [])),
    'subject of 64 KB without credentials': hostile(
      'subject',
      401,
      subject(JSON.stringify({ pad: 'x'.repeat(64_000) }), []),
      large
    ),
    'subject of 100 identifiers': hostile('subject', 204, subject({ sub_id: aliases(100) }), large),
    'subject of 100 identifiers, undone': hostile('subject', 204, subject({ sub_id: aliases(100), undo: true }), large),
    'subject of 64 KB': hostile('subject', 204, subject({ sub_id: user(0), pad: 'x'.repeat(64_000) }), large)
  }
}
