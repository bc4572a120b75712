import { createEventKinds } from './events.js'
import { HOST } from './provider.js'
import { createClient, createMint, createOtherMint, hashOf, nested, seconds, tamper, unique } from './tokens.js'

const CLIENTS = 8
/** Of each sort of key one algorithm. */
export const FORGED_ALGS = ['RS256', 'ES256', 'ES384', 'ES512', 'EdDSA']
const PATH = '/api/private'
export const HTU = `http://${HOST}${PATH}`

const http = (authorization, proof, path = PATH, more = '') =>
  Buffer.from(
    `GET ${path} HTTP/1.1\r\nHost: ${HOST}\r\nAccept: application/json\r\n` +
      (authorization === undefined ? '' : `Authorization: ${authorization}\r\n`) +
      (proof === undefined ? '' : `DPoP: ${proof}\r\n`) + more + '\r\n',
    'latin1'
  )

const CALL = JSON.stringify({
  jsonrpc: '2.0',
  id: 7,
  method: 'tools/call',
  params: { name: 'search', arguments: { query: 'holdfast', limit: 20 } }
})

/** A call of a tool, to a path of the Model Context Protocol or to one that reads no body. */
const post = (path, authorization = '') =>
  Buffer.from(
    `POST ${path} HTTP/1.1\r\nHost: ${HOST}\r\nAccept: application/json, text/event-stream\r\n${authorization}` +
      `Content-Type: application/json\r\nContent-Length: ${CALL.length}\r\n\r\n${CALL}`
  )

/**
 * The kinds of request that a run can send. Each has the status and, where Holdfast names one, the error that its
 * answer must have; `fresh` ones are built for each sending and never sent twice, the others are sent over and over;
 * `primed` ones are sent once, with success, before they are measured. `like` names the accepted kind that a refusal is
 * compared with: the one that differs from it in a single thing. `of: 'crowd'` is for a service whose provider has many
 * keys.
 */
export const createKinds = provider => {
  const mint = createMint(provider)
  const holders = Array.from({ length: CLIENTS }, () => {
    const client = createClient()
    const token = mint({ cnf: { jkt: client.jkt } })
    return { client, token, ath: hashOf(token) }
  })
  const plain = Array.from({ length: CLIENTS }, () => mint())
  const mintBy = createOtherMint(provider)
  const of = (list, i) => list[i % list.length]
  const proofOf = (holder, claims) => holder.client.prove({ htm: 'GET', htu: HTU, ath: holder.ath, ...claims })

  /** A DPoP request that is right but for the claims given. */
  const dpop = claims => i => {
    const holder = of(holders, i)
    return http(`DPoP ${holder.token}`, proofOf(holder, typeof claims === 'function' ? claims() : claims))
  }
  const bearer = make => () => http(`Bearer ${make()}`)
  let nonce

  const accepted = (make, more) => ({ status: 200, error: null, fresh: true, make, ...more })
  // Much larger than what it is compared with: what the bytes themselves cost is Node's.
  const large = (like, error, make, more) => refused(like, error, make, { ...more, large: true })
  const refused = (like, error, make, more) => ({ status: 401, error, fresh: true, like, make, ...more })

  // Without `kid`, and signed by none of many keys. What it is compared with names its key.
  const forged = FORGED_ALGS.flatMap(alg => {
    const make = header => alg === 'RS256' ? mint({}, header) : mintBy(alg, header)
    return [
      [`bearer-new-${alg}`, accepted(bearer(() => make()), { of: 'crowd' })],
      [
        `token without kid, forged, ${alg}`,
        refused(`bearer-new-${alg}`, 'invalid_token', bearer(() => tamper(make({ kid: undefined }))), { of: 'crowd' })
      ]
    ]
  })

  const kinds = {
    public: accepted(() => http(undefined, undefined, '/api/public'), { fresh: false }),
    bearer: accepted(i => http(`Bearer ${of(plain, i)}`), { fresh: false }),
    'bearer-new': accepted(bearer(() => mint())),
    post: accepted(i => post('/post', `Authorization: Bearer ${of(plain, i)}\r\n`), { fresh: false }),
    call: accepted(i => post('/mcp', `Authorization: Bearer ${of(plain, i)}\r\n`), { fresh: false }),
    'call without credentials': refused('call', null, () => post('/mcp'), { fresh: false }),
    dpop: accepted(dpop({})),
    'dpop-new': accepted(() => {
      const client = createClient()
      const token = mint({ cnf: { jkt: client.jkt } })
      return http(`DPoP ${token}`, client.prove({ htm: 'GET', htu: HTU, ath: hashOf(token) }))
    }),
    'dpop-nonce': accepted(dpop(() => ({ nonce }))),
    ...Object.fromEntries(forged),

    'no credentials': refused('bearer', null, () => http(), { fresh: false }),
    'header malformed': refused('bearer', 'invalid_request', i => http(`Bearer ${of(plain, i)} more`), {
      fresh: false
    }),
    'bound token as Bearer': refused('bearer', 'invalid_token', i => http(`Bearer ${of(holders, i).token}`), {
      fresh: false
    }),
    'scope missing': refused(
      'bearer',
      'insufficient_scope',
      i => http(`Bearer ${of(plain, i)}`, undefined, '/api/admin'),
      { fresh: false, status: 403 }
    ),
    'token not a JWT': refused('bearer-new', 'invalid_token', bearer(() => `${unique()}${'t'.repeat(700)}`)),
    'token of a wrong algorithm': refused('bearer-new', 'invalid_token', bearer(() => mint({}, { alg: 'HS256' }))),
    'token for another audience': refused(
      'bearer-new',
      'invalid_token',
      bearer(() => mint({ aud: 'https://other.example.test/' }))
    ),
    'token expired': refused('bearer-new', 'invalid_token', bearer(() => mint({ exp: seconds() - 600 }))),
    'token of an unknown key': refused('bearer-new', 'invalid_token', bearer(() => mint({}, { kid: unique() }))),
    'token signature wrong': refused('bearer-new', 'invalid_token', bearer(() => tamper(mint()))),
    'unbound token as DPoP': refused('dpop', 'invalid_token', i => {
      const token = of(plain, i)
      return http(`DPoP ${token}`, of(holders, i).client.prove({ htm: 'GET', htu: HTU, ath: hashOf(token) }))
    }),
    'proof missing': refused('dpop', 'invalid_request', i => http(`DPoP ${of(holders, i).token}`), { fresh: false }),
    'proof malformed': refused(
      'dpop',
      'invalid_dpop_proof',
      i => http(`DPoP ${of(holders, i).token}`, proofOf(of(holders, i)).replaceAll('.', '-'))
    ),
    'htm wrong': refused('dpop', 'invalid_dpop_proof', dpop({ htm: 'POST' })),
    'htu wrong': refused('dpop', 'invalid_dpop_proof', dpop({ htu: `${HTU}/other` })),
    'iat too old': refused('dpop', 'invalid_dpop_proof', dpop(() => ({ iat: seconds() - 3_600 }))),
    'ath wrong': refused('dpop', 'invalid_dpop_proof', dpop(() => ({ ath: hashOf(unique()) }))),
    'proof of another key': refused('dpop', 'invalid_token', i => {
      const holder = of(holders, i)
      return http(`DPoP ${holder.token}`, of(holders, i + 1).client.prove({ htm: 'GET', htu: HTU, ath: holder.ath }))
    }),
    'proof signature wrong': refused(
      'dpop',
      'invalid_dpop_proof',
      i => http(`DPoP ${of(holders, i).token}`, tamper(proofOf(of(holders, i))))
    ),
    'proof replayed': refused('dpop', 'invalid_dpop_proof', dpop({}), { fresh: false, primed: true }),
    '1,200 header lines': large(
      'bearer',
      'invalid_request',
      i => http(`Bearer ${of(plain, i)}`, undefined, PATH, 'a:\r\n'.repeat(1_200)),
      { fresh: false }
    ),
    'Authorization of 12 KB': large('bearer-new', 'invalid_token', bearer(() => unique() + 't'.repeat(12_000))),
    'Authorization of 12 KB, another scheme': large('bearer', null, () => http('x '.repeat(6_000)), { fresh: false }),
    'token of 12 KB of brackets': large('bearer-new', 'invalid_token', bearer(() => `${nested(9_000)}.${unique()}.`)),
    'token of 11 KB, signature wrong': large(
      'bearer-new',
      'invalid_token',
      bearer(() => tamper(mint({ pad: 'x'.repeat(7_500) })))
    ),
    'proof of 8 KB, htu wrong': large(
      'dpop',
      'invalid_dpop_proof',
      dpop({ htu: `${HTU}/other`, pad: 'x'.repeat(5_500) })
    ),
    'proof of 8 KB, signature wrong': large(
      'dpop',
      'invalid_dpop_proof',
      i => http(`DPoP ${of(holders, i).token}`, tamper(proofOf(of(holders, i), { pad: 'x'.repeat(5_500) })))
    ),
    'proof of 8 KB of brackets': large(
      'dpop',
      'invalid_dpop_proof',
      i => http(`DPoP ${of(holders, i).token}`, `${nested(5_500)}.${unique()}.`)
    ),
    'proof of 12 KB': large('dpop', 'invalid_dpop_proof', dpop({ pad: 'x'.repeat(8_500) })),
    'nonce missing': refused('dpop-nonce', 'use_dpop_nonce', dpop({})),
    ...createEventKinds(provider),
    'nonce stale': refused('dpop-nonce', 'use_dpop_nonce', dpop({ nonce: 'bm90LW9uZS1vZi1vdXJz' }))
  }
  return {
    kinds,
    useNonce: text => {
      nonce = text
    }
  }
}
