// What someone does who got hold of a token, or of a whole request. Each attack differs from a good call in one thing.
import * as oauth from '/vendor/oauth4webapi.js'
import { call, callOnce, last, send } from './exchange.js'

const HOUR = 3600

/** A proof like that of a good client, but for what `change` does to its claims. */
const forge = ({ client, keys }, change) => oauth.DPoP(client, keys, { [oauth.modifyAssertion]: (_header, claims) => change(claims) })

/** A good call, so that there is a request to steal from; then `theft` gets what was sent. */
async function steal (world, log, theft) {
  await call(log, world.target, world.token, world.dpop)
  if (last(log)?.status !== 200) return
  const { authorization, dpop } = last(log).sent
  await theft({ authorization, dpop })
}

export const ATTACKS = [
  {
    id: 'replay',
    title: 'Replay the proof',
    story: 'A whole request was caught, token and proof. It is sent again as it was.',
    lesson: 'Each proof has a jti of its own, and the service remembers it: the second use is refused.',
    claims: ['jti'],
    run: (world, log) => steal(world, log, (headers) => send(log, world.target, headers))
  },
  {
    id: 'bearer',
    title: 'Use the token as Bearer',
    story: 'The token was stolen from a log or a proxy. It is sent alone, as Bearer tokens are.',
    lesson: 'The token names the key that it is bound to (cnf.jkt): without a proof by that key it is worth nothing.',
    claims: ['cnf'],
    run: (world, log) => send(log, world.target, { authorization: `Bearer ${world.token}` })
  },
  {
    id: 'key',
    title: 'Use another key',
    story: 'The token was stolen, and the thief signs a perfect proof with a key of their own.',
    lesson: 'The thumbprint of the key in the proof is not the cnf.jkt in the token. The right key cannot be stolen: it never leaves the browser.',
    claims: ['jwk', 'cnf'],
    run: async (world, log) => call(log, world.target, world.token, oauth.DPoP(world.client, await oauth.generateKeyPair('ES256')))
  },
  {
    id: 'method',
    title: 'Change the method',
    story: 'A caught request for GET is sent with the method HEAD.',
    lesson: 'The proof says for which method it was made (htm).',
    claims: ['htm'],
    run: (world, log) => steal(world, log, (headers) => send(log, world.target, headers, 'HEAD'))
  },
  {
    id: 'url',
    title: 'Change the URL',
    story: 'A caught request is sent to another endpoint of the same API.',
    lesson: 'The proof says for which URL it was made (htu).',
    claims: ['htu'],
    run: (world, log) => steal(world, log, (headers) => send(log, world.elsewhere, headers))
  },
  {
    id: 'time',
    title: 'Change the time',
    story: 'A proof was made an hour ago, for later. It was never used, so its jti is new.',
    lesson: 'A proof is good for minutes: by the time in it (iat), or, where the service asks for nonces, by the age of the nonce.',
    claims: ['iat', 'nonce'],
    run: (world, log) => callOnce(log, world.target, world.token, forge(world, (claims) => { claims.iat -= HOUR }))
  },
  {
    id: 'ath',
    title: 'Drop ath',
    story: 'A proof that was not made for any token is put beside the stolen one.',
    lesson: 'The proof holds the hash of the one token that it goes with (ath).',
    claims: ['ath'],
    run: (world, log) => call(log, world.target, world.token, forge(world, (claims) => { delete claims.ath }))
  },
  {
    id: 'nonce',
    title: 'Send no nonce',
    story: 'The proof was made without asking the service for anything first.',
    lesson: 'With DPOP_NONCE=required the service refuses a proof without its nonce, so none can be made in advance.',
    passed: 'This service asks for no nonces, so nothing was wrong with the proof. Start it with DPOP_NONCE=required npm run dev to see the difference.',
    claims: ['nonce'],
    run: (world, log) => callOnce(log, world.target, world.token, forge(world, (claims) => { delete claims.nonce }))
  }
]
