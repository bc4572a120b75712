import sensible from '@fastify/sensible'
import fp from 'fastify-plugin'

/** Provides `app.httpErrors` and `reply.cacheControl` for routes. */
export default fp(sensible, { name: 'sensible' })
