import { createHash } from 'node:crypto'
import { createEventKinds } from './events.js'
import { HAS_ML_DSA, HOST, OTHER_ALGS } from './provider.js'
import { createClient, createMint, createOtherMint, hashOf, tamper, unique } from './tokens.js'

const CLIENTS = 8
/** Of each sort of key one algorithm. */
export const FORGED_ALGS = ['RS256', 'ES256', 'ES384', 'ES512', 'EdDSA']
const PATH = '/api/private'
export const HTU = `http://${HOST}${PATH}`

const http = (authorization, proof, path = PATH, more = '') => Buffer.from(
  `GET ${path} HTTP/1.1\r\nHost: ${HOST}\r\nAccept: application/json\r\n` +
  (authorization === undefined ? '' : `Authorization: ${authorization}\r\n`) +
  (proof === undefined ? '' : `DPoP: ${proof}\r\n`) + more + '\r\n', 'latin1')

/** A call of a tool, as clients of the Model Context Protocol send it. */
const MESSAGE = JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'tools/call', params: { name: 'read_orders', arguments: { customer: '81529', since: '2026-01-01', limit: 50, fields: ['id', 'state', 'total'] } } })
const post = (authorization, path) => Buffer.from(`POST ${path} HTTP/1.1\r\nHost: ${HOST}\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\nContent-Length: ${MESSAGE.length}\r\n${authorization === undefined ? '' : `Authorization: ${authorization}\r\n`}\r\n${MESSAGE}`, 'latin1')

/** JSON as deep as it is long. */
const nested = (bytes) => Buffer.from('['.repeat(bytes / 2) + ']'.repeat(bytes / 2)).toString('base64url')

/**
 * The kinds of request that a run can send. Each has the status and, where Holdfast names one, the error that its
 * answer must have; `fresh` ones are built for each sending and never sent twice, the others are sent over and over; `primed` ones
 * are sent once, with success, before they are measured. `like` names the accepted kind that a refusal is compared with:
 * the one that differs from it in a single thing. `of: 'crowd'` is for a service whose provider has many keys.
 */
export const createKinds = (provider) => {
  const mint = createMint(provider)
  const holders = (alg) => Array.from({ length: CLIENTS }, () => {
    const client = createClient(alg)
    const token = mint({ cnf: { jkt: client.jkt } })
    return { client, token, ath: hashOf(token) }
  })
  const pool = { ES256: holders('ES256'), EdDSA: holders('EdDSA'), ...HAS_ML_DSA && { 'ML-DSA-44': holders('ML-DSA-44') } }
  const plain = Array.from({ length: CLIENTS }, () => mint())
  const mintBy = createOtherMint(provider)
  const byAlg = OTHER_ALGS.flatMap(({ algs }) => algs).map(alg => {
    const tokens = Array.from({ length: CLIENTS }, () => mintBy(alg))
    return [`bearer-${alg}`, { status: 200, error: null, fresh: false, make: i => http(`Bearer ${of(tokens, i)}`) }]
  })
  // RFC 8705 section 3.1. What stands for the certificate is not looked into beyond its hash, so one of the tests serves.
  const bound = mint({ cnf: { 'x5t#S256': createHash('sha256').update(Buffer.from(provider.certificate, 'base64')).digest('base64url') } })
  const of = (list, i) => list[i % list.length]
  const proofOf = (holder, claims, header) => holder.client.prove({ htm: 'GET', htu: HTU, ath: holder.ath, ...claims }, header)

  /** A DPoP request that is right but for the claims or header members given. */
  const dpop = (claims, header, alg = 'ES256') => (i) => {
    const holder = of(pool[alg], i)
    return http(`DPoP ${holder.token}`, proofOf(holder, typeof claims === 'function' ? claims() : claims, header))
  }
  const bearer = (make) => () => http(`Bearer ${make()}`)
  const now = () => Math.floor(Date.now() / 1000)
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
      [`token without kid, forged, ${alg}`, refused(`bearer-new-${alg}`, 'invalid_token', bearer(() => tamper(make({ kid: undefined }))), { of: 'crowd' })]
    ]
  })

  const kinds = {
    public: accepted(() => http(undefined, undefined, '/api/public'), { fresh: false }),
    bearer: accepted(i => http(`Bearer ${of(plain, i)}`), { fresh: false }),
    'bearer-new': accepted(bearer(() => mint())),
    dpop: accepted(dpop({})),
    'dpop-eddsa': accepted(dpop({}, undefined, 'EdDSA')),
    ...HAS_ML_DSA && { 'dpop-ML-DSA-44': accepted(dpop({}, undefined, 'ML-DSA-44')) },
    post: accepted(i => post(`Bearer ${of(plain, i)}`, '/orders'), { fresh: false }),
    message: accepted(i => post(`Bearer ${of(plain, i)}`, '/mcp'), { fresh: false }),
    'message without credentials': refused('message', null, () => post(undefined, '/mcp'), { fresh: false }),
    'dpop-new': accepted(() => {
      const client = createClient()
      const token = mint({ cnf: { jkt: client.jkt } })
      return http(`DPoP ${token}`, client.prove({ htm: 'GET', htu: HTU, ath: hashOf(token) }))
    }),
    'dpop-nonce': accepted(dpop(() => ({ nonce }))),
    opaque: accepted(i => http(`Bearer opaque-${i % CLIENTS}`), { fresh: false }),
    'opaque-new': accepted(() => http(`Bearer ${unique()}`)),
    certificate: accepted(() => http(`Bearer ${bound}`, undefined, PATH, `Client-Cert: :${provider.certificate}:\r\n`), { fresh: false }),
    ...Object.fromEntries(byAlg),
    ...Object.fromEntries(forged),
    'certificate missing': refused('certificate', 'invalid_token', () => http(`Bearer ${bound}`), { fresh: false }),

    'no credentials': refused('bearer', null, () => http(), { fresh: false }),
    'header malformed': refused('bearer', 'invalid_request', i => http(`Bearer ${of(plain, i)} more`), { fresh: false }),
    'bound token as Bearer': refused('bearer', 'invalid_token', i => http(`Bearer ${of(pool.ES256, i).token}`), { fresh: false }),
    'scope missing': refused('bearer', 'insufficient_scope', i => http(`Bearer ${of(plain, i)}`, undefined, '/api/admin'), { fresh: false, status: 403 }),
    'token not a JWT': refused('bearer-new', 'invalid_token', bearer(() => `${unique()}${'t'.repeat(700)}`)),
    'token of a wrong algorithm': refused('bearer-new', 'invalid_token', bearer(() => mint({}, { alg: 'HS256' }))),
    'token for another audience': refused('bearer-new', 'invalid_token', bearer(() => mint({ aud: 'https://other.example.test/' }))),
    'token expired': refused('bearer-new', 'invalid_token', bearer(() => mint({ exp: now() - 600 }))),
    'token of an unknown key': refused('bearer-new', 'invalid_token', bearer(() => mint({}, { kid: unique() }))),
    'token signature wrong': refused('bearer-new', 'invalid_token', bearer(() => tamper(mint()))),
    'unbound token as DPoP': refused('dpop', 'invalid_token', (i) => {
      const token = of(plain, i)
      return http(`DPoP ${token}`, of(pool.ES256, i).client.prove({ htm: 'GET', htu: HTU, ath: hashOf(token) }))
    }),
    'proof missing': refused('dpop', 'invalid_request', i => http(`DPoP ${of(pool.ES256, i).token}`), { fresh: false }),
    'proof malformed': refused('dpop', 'invalid_dpop_proof', i => http(`DPoP ${of(pool.ES256, i).token}`, proofOf(of(pool.ES256, i)).replaceAll('.', '-'))),
    'htm wrong': refused('dpop', 'invalid_dpop_proof', dpop({ htm: 'POST' })),
    'htu wrong': refused('dpop', 'invalid_dpop_proof', dpop({ htu: `${HTU}/other` })),
    'iat too old': refused('dpop', 'invalid_dpop_proof', dpop(() => ({ iat: now() - 3_600 }))),
    'ath wrong': refused('dpop', 'invalid_dpop_proof', dpop(() => ({ ath: hashOf(unique()) }))),
    'proof of another key': refused('dpop', 'invalid_token', (i) => {
      const holder = of(pool.ES256, i)
      return http(`DPoP ${holder.token}`, of(pool.ES256, i + 1).client.prove({ htm: 'GET', htu: HTU, ath: holder.ath }))
    }),
    'proof signature wrong': refused('dpop', 'invalid_dpop_proof', i => http(`DPoP ${of(pool.ES256, i).token}`, tamper(proofOf(of(pool.ES256, i))))),
    'proof replayed': refused('dpop', 'invalid_dpop_proof', dpop({}), { fresh: false, primed: true }),
    '1,200 header lines': large('bearer', 'invalid_request', i => http(`Bearer ${of(plain, i)}`, undefined, PATH, 'a:\r\n'.repeat(1_200)), { fresh: false }),
    'Authorization of 12 KB': large('bearer-new', 'invalid_token', bearer(() => unique() + 't'.repeat(12_000))),
    'Authorization of 12 KB, another scheme': large('bearer', null, () => http('x '.repeat(6_000)), { fresh: false }),
    'token of 12 KB of brackets': large('bearer-new', 'invalid_token', bearer(() => `${nested(9_000)}.${unique()}.`)),
    'token of 11 KB, signature wrong': large('bearer-new', 'invalid_token', bearer(() => tamper(mint({ pad: 'x'.repeat(7_500) })))),
    'proof of 8 KB, htu wrong': large('dpop', 'invalid_dpop_proof', dpop({ htu: `${HTU}/other`, pad: 'x'.repeat(5_500) })),
    'proof of 8 KB, signature wrong': large('dpop', 'invalid_dpop_proof', i => http(`DPoP ${of(pool.ES256, i).token}`, tamper(proofOf(of(pool.ES256, i), { pad: 'x'.repeat(5_500) })))),
    'proof of 8 KB of brackets': large('dpop', 'invalid_dpop_proof', i => http(`DPoP ${of(pool.ES256, i).token}`, `${nested(5_500)}.${unique()}.`)),
    'proof of 12 KB': large('dpop', 'invalid_dpop_proof', dpop({ pad: 'x'.repeat(8_500) })),
    'nonce missing': refused('dpop-nonce', 'use_dpop_nonce', dpop({})),
    ...createEventKinds(provider),
    'nonce stale': refused('dpop-nonce', 'use_dpop_nonce', dpop({ nonce: 'bm90LW9uZS1vZi1vdXJz' }))
  }
  return { kinds, useNonce: (text) => { nonce = text } }
}
