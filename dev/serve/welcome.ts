import type { FastifyPluginAsync } from 'fastify'

/**
 * `GET /`: there is nothing, as in the service, but visitors of a browser read where to go. Only `npm run dev` adds it.
 */
const routes: FastifyPluginAsync = async app => {
  // Every path of a gate is for its rules.
  if (app.gate) return
  const { DEV_PLAYGROUND: playground } = process.env
  const ways = [
    'the reference is at /docs',
    'a public endpoint at /api/public',
    ...playground === undefined ? [] : [`the playground at ${playground}`]
  ]
  app.get(
    '/',
    { schema: { hide: true } },
    (_request, reply) =>
      reply.code(404).send({
        statusCode: 404,
        error: 'Not Found',
        message: `There is nothing at this path: ${ways.join(', ')}.`
      })
  )
}
export default routes
