import Fastify from 'fastify'
import { allowInsecureRequests, discoveryRequest, processDiscoveryResponse, validateJwtAccessToken } from 'oauth4webapi'
import { serve } from './route.js'

const { ISSUER, AUDIENCE } = process.env
const options = { [allowInsecureRequests]: true }
const issuer = new URL(ISSUER)
const as = await processDiscoveryResponse(issuer, await discoveryRequest(issuer, options))

const app = Fastify()
app.decorateRequest('user', null)
await serve(app, {
  onRequest: async (request, reply) => {
    const seen = new Request(`${request.protocol}://${request.host}${request.url}`, {
      method: request.method,
      headers: request.headers
    })
    try {
      request.user = await validateJwtAccessToken(as, seen, AUDIENCE, options)
    } catch (error) {
      error.statusCode = 401
      throw error
    }
  }
}, request => request.user.sub)
