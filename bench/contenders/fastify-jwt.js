import Fastify from 'fastify'
import fastifyJwt from '@fastify/jwt'
import buildGetJwks from 'get-jwks'
import { serve } from './route.js'

const { ISSUER, AUDIENCE } = process.env
const app = Fastify()
const getJwks = buildGetJwks({ issuersWhitelist: [ISSUER] })

// As the README of get-jwks wires the two, with issuer, audience and algorithm named.
app.register(fastifyJwt, {
  decode: { complete: true },
  verify: { allowedIss: ISSUER, allowedAud: AUDIENCE, algorithms: ['RS256'] },
  secret: (request, token, callback) => {
    const { header: { kid, alg }, payload: { iss } } = token
    getJwks.getPublicKey({ kid, domain: iss, alg }).then(key => callback(null, key), callback)
  }
})

await serve(app, {
  onRequest: async request => {
    await request.jwtVerify()
  }
}, request => request.user.sub)
