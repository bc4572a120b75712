import { createHash, createPublicKey, verify } from 'node:crypto'
import Fastify from 'fastify'
import { serve } from './route.js'

/**
 * The floor: what any DPoP resource server must do for a request, and nothing else. The proof is parsed, its `ath`
 * compared with the hash of the token, its signature verified once, on the thread pool. No claim is checked, no token
 * is verified, no jti is kept.
 */
const clientKeys = new Map() // The proof's header as sent -> the key that verifies it.

const keyOf = header => {
  let key = clientKeys.get(header)
  if (key === undefined) {
    key = createPublicKey({ key: JSON.parse(Buffer.from(header, 'base64url').toString()).jwk, format: 'jwk' })
    clientKeys.set(header, key)
  }
  return key
}

/** RFC 7515 carries r and s side by side; OpenSSL reads them as an ASN.1 sequence of two integers. */
const toDer = raw => {
  let r = 0
  let s = 32
  while (r < 31 && raw[r] === 0) r++
  while (s < 63 && raw[s] === 0) s++
  const rPad = raw[r] >> 7
  const sPad = raw[s] >> 7
  const rLength = 32 - r + rPad
  const sLength = 64 - s + sPad
  const der = Buffer.alloc(6 + rLength + sLength)
  der[0] = 0x30
  der[1] = 4 + rLength + sLength
  der[2] = 0x02
  der[3] = rLength
  raw.copy(der, 4 + rPad, r, 32)
  der[4 + rLength] = 0x02
  der[5 + rLength] = sLength
  raw.copy(der, 6 + rLength + sPad, s, 64)
  return der
}

const refused = Object.assign(new Error('refused'), { statusCode: 401 })

const guard = (request, reply, done) => {
  const { authorization, dpop } = request.headers
  if (authorization === undefined || dpop === undefined) return done(refused)
  const first = dpop.indexOf('.')
  const last = dpop.lastIndexOf('.')
  const claims = JSON.parse(Buffer.from(dpop.slice(first + 1, last), 'base64url').toString())
  const ath = createHash('sha256').update(authorization.slice(5)).digest('base64url')
  if (claims.ath !== ath) return done(refused)
  const signature = toDer(Buffer.from(dpop.slice(last + 1), 'base64url'))
  verify('sha256', Buffer.from(dpop.slice(0, last)), keyOf(dpop.slice(0, first)), signature, (error, good) => {
    done(error ?? (good ? undefined : refused))
  })
}

await serve(Fastify(), { onRequest: guard }, () => 'bench|00000000')
