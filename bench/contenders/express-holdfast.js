import '../../cli/strip-types.js'
import express from 'express'

const { createGuard } = await import('../../packages/holdfast/guard.ts')
const guard = await createGuard({
  idp: { issuer: process.env.ISSUER, audience: process.env.AUDIENCE, dpopMode: 'ALLOWED' }
})

const app = express()
app.get('/api/public', (request, response) => {
  response.json({ message: 'This is public.' })
})
app.get('/api/private', (request, response, next) => {
  guard.check(request).then(verdict => {
    if (!verdict.admitted) return response.status(verdict.status).set(verdict.headers).send(verdict.body)
    response.set(verdict.headers)
    request.user = verdict.user
    next()
  }, next)
}, (request, response) => {
  response.json({ message: 'You are signed in.', user_id: request.user.sub })
})
app.listen(Number(process.env.PORT), '127.0.0.1')
