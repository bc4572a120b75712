import Fastify from 'fastify'
import auth0Verify from 'fastify-auth0-verify'
import { serve } from './route.js'

const app = Fastify()
await app.register(auth0Verify, { domain: process.env.ISSUER, audience: process.env.AUDIENCE })
await serve(app, { preValidation: app.authenticate }, request => request.user.sub)
