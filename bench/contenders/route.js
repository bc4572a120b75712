/** What every Fastify contender serves: the same two routes, the same compiled schema, request logging off. */
const schema = {
  response: {
    200: { type: 'object', properties: { message: { type: 'string' }, user_id: { type: 'string' } } }
  }
}

export const serve = async (app, guard, userOf) => {
  app.get('/api/public', { schema }, (request, reply) => {
    reply.send({ message: 'This is public.' })
  })
  app.get('/api/private', { schema, ...guard }, (request, reply) => {
    reply.send({ message: 'You are signed in.', user_id: userOf(request) })
  })
  await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT) })
}
