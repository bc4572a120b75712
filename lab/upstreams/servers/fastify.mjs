import Fastify from 'fastify'
import { serve } from './node.mjs'

const app = Fastify({ exposeHeadRoutes: false })
app.removeAllContentTypeParsers()
app.addContentTypeParser('*', (_request, _payload, done) => done(null))
const hook = (request, reply) => {
  reply.hijack()
  serve(request.raw, reply.raw)
}
app.addHook('onRequest', (request, reply, _done) => hook(request, reply))
app.all('/*', () => {})
app.listen({ port: Number(process.env.PORT), host: '127.0.0.1' })
