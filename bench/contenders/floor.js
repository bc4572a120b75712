import { createHash, createPublicKey, verify, webcrypto } from 'node:crypto'
import Fastify from 'fastify'
import { serve } from './route.js'

/**
 * The floor: what any DPoP resource server must do for a request, and nothing else. The proof is parsed, its
 * `ath` compared with the hash of the token, its signature verified once. No claim is checked, no token is
 * verified, no jti is kept. FLOOR chooses how the signature is verified; `pool` is the floor, the rest are
 * ways that were tried against it.
 */
const clientKeys = new Map() // The proof's header as sent -> what verifies it.

const keyOf = (header) => {
  let key = clientKeys.get(header)
  if (key === undefined) {
    const { jwk } = JSON.parse(Buffer.from(header, 'base64url').toString())
    const object = createPublicKey({ key: jwk, format: 'jwk' })
    key = { jwk, object, digest: jwk.kty === 'EC' ? 'sha256' : null, web: undefined }
    clientKeys.set(header, key)
  }
  return key
}

/** RFC 7515 carries r and s side by side; OpenSSL reads them as an ASN.1 sequence of two integers. */
const toDer = (raw) => {
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

const signatureOf = (key, text) => {
  const raw = Buffer.from(text, 'base64url')
  return key.digest === null ? raw : toDer(raw)
}

const VERIFIERS = {
  pool: (key, signed, signature, done) => verify(key.digest, Buffer.from(signed), key.object, signatureOf(key, signature), done),
  main: (key, signed, signature, done) => done(null, verify(key.digest, Buffer.from(signed), key.object, signatureOf(key, signature))),
  p1363: (key, signed, signature, done) => verify(key.digest, Buffer.from(signed), { key: key.object, dsaEncoding: 'ieee-p1363' }, Buffer.from(signature, 'base64url'), done),
  'new-key': (key, signed, signature, done) => verify(key.digest, Buffer.from(signed), createPublicKey({ key: key.jwk, format: 'jwk' }), signatureOf(key, signature), done),
  webcrypto: (key, signed, signature, done) => {
    key.web ??= webcrypto.subtle.importKey('jwk', key.jwk, { name: 'ECDSA', namedCurve: 'P-256' }, false, ['verify'])
    key.web
      .then(web => webcrypto.subtle.verify({ name: 'ECDSA', hash: 'SHA-256' }, web, Buffer.from(signature, 'base64url'), Buffer.from(signed)))
      .then(good => done(null, good), done)
  }
}

const verifyProof = VERIFIERS[process.env.FLOOR ?? 'pool']
const refused = Object.assign(new Error('refused'), { statusCode: 401 })

const guard = (request, reply, done) => {
  const { authorization, dpop } = request.headers
  if (authorization === undefined || dpop === undefined) return done(refused)
  const first = dpop.indexOf('.')
  const last = dpop.lastIndexOf('.')
  const claims = JSON.parse(Buffer.from(dpop.slice(first + 1, last), 'base64url').toString())
  const ath = createHash('sha256').update(authorization.slice(5)).digest('base64url')
  if (claims.ath !== ath) return done(refused)
  verifyProof(keyOf(dpop.slice(0, first)), dpop.slice(0, last), dpop.slice(last + 1), (error, good) => {
    done(error ?? (good ? undefined : refused))
  })
}

await serve(Fastify(), { onRequest: guard }, () => 'bench|00000000')
