// What a thief does with a token, or with a whole request. Each attack differs from a good call in one thing.
import * as oauth from '/vendor/oauth4webapi.js'
import { call, callOnce, last, send } from './exchange.js'

const HOUR = 3600

/** Calls by `make` with the proof of a good client, its claims changed by `change`. */
const forged = (make, change) => ({ client, keys, target, token }, log) =>
  make(log, target, token, oauth.DPoP(client, keys, { [oauth.modifyAssertion]: (_header, claims) => change(claims) }))

/**
 * A good call, so that there is a request to steal from; then `theft` gets what was sent. False if there was nothing to
 * steal.
 */
async function steal (world, log, theft) {
  await call(log, world.target, world.token, world.dpop)
  if (last(log)?.status !== 200) return false
  const { authorization, dpop } = last(log).sent
  await theft({ authorization, dpop })
}

/** `reasons` are those that the attack is made to provoke. Any other refusal proves nothing about it. */
export const ATTACKS = [
  {
    id: 'replay',
    reasons: ['proof_replayed'],
    title: 'Replay the proof',
    story: 'The attacker has recorded a whole request, token and proof, and sends it again unchanged.',
    lesson: 'Each proof has its own jti, and the service records it. It refuses the second use.',
    claims: ['jti'],
    run: (world, log) => steal(world, log, headers => send(log, world.target, headers))
  },
  {
    id: 'bearer',
    reasons: ['token_bound', 'scheme_not_offered'],
    title: 'Use the token as Bearer',
    story: 'The token was stolen from a log or a proxy. The attacker sends it without a proof, as a Bearer token.',
    lesson: 'The token names the key that it is bound to (cnf.jkt). It is useless without a proof made with that key.',
    claims: ['cnf'],
    run: (world, log) => send(log, world.target, { authorization: `Bearer ${world.token}` })
  },
  {
    id: 'key',
    reasons: ['jkt_mismatch'],
    title: 'Use another key',
    story: 'The token was stolen. The thief signs a valid proof, but with another key.',
    lesson: 'The thumbprint of the key in the proof is not the cnf.jkt in the token. The right key cannot be stolen, ' +
      'because it never leaves the browser.',
    claims: ['jwk', 'cnf'],
    run: async (world, log) =>
      call(log, world.target, world.token, oauth.DPoP(world.client, await oauth.generateKeyPair('ES256')))
  },
  {
    id: 'method',
    reasons: ['htm_mismatch'],
    title: 'Change the method',
    story: 'The attacker has recorded a GET request and sends it with the method HEAD.',
    lesson: 'The proof names the method that it was made for (htm).',
    claims: ['htm'],
    run: (world, log) => steal(world, log, headers => send(log, world.target, headers, 'HEAD'))
  },
  {
    id: 'url',
    reasons: ['htu_mismatch'],
    title: 'Change the URL',
    story: 'The attacker sends a recorded request to another endpoint of the same API.',
    lesson: 'The proof names the URL that it was made for (htu).',
    claims: ['htu'],
    run: (world, log) => steal(world, log, headers => send(log, world.elsewhere, headers))
  },
  {
    id: 'time',
    reasons: ['iat_too_old', 'nonce_missing'],
    title: 'Change the time',
    story: 'A proof was made an hour ago and kept for later. It was never used, so its jti is new.',
    lesson: 'A proof is valid for a few minutes. Its age comes from the time in it (iat) or, if the service requires ' +
      'nonces, from its nonce.',
    claims: ['iat', 'nonce'],
    run: forged(callOnce, claims => {
      claims.iat -= HOUR
    })
  },
  {
    id: 'ath',
    reasons: ['proof_claim_invalid'],
    title: 'Drop ath',
    story: 'The attacker sends the stolen token with a proof that was not made for any token.',
    lesson: 'A proof must contain the hash of the token that it is used with (ath).',
    claims: ['ath'],
    run: forged(call, claims => {
      delete claims.ath
    })
  },
  {
    id: 'nonce',
    reasons: ['nonce_missing'],
    title: 'Send no nonce',
    story: 'The attacker made the proof without asking the service for a nonce first.',
    lesson:
      'With DPOP_NONCE=required the service refuses a proof without its nonce, so proofs cannot be made in advance.',
    passed: 'This service requires no nonces, so the proof is valid. To see the attack stopped, start with ' +
      'DPOP_NONCE=required npm run dev.',
    claims: ['nonce'],
    run: forged(callOnce, claims => {
      delete claims.nonce
    })
  }
]
