import express from 'express'
import { auth } from 'express-oauth2-jwt-bearer'

const app = express()
app.get('/api/public', (request, response) => {
  response.json({ message: 'This is public.' })
})
app.get(
  '/api/private',
  auth({ issuerBaseURL: process.env.ISSUER, audience: process.env.AUDIENCE }),
  (request, response) => {
    response.json({ message: 'You are signed in.', user_id: request.auth.payload.sub })
  }
)
app.listen(Number(process.env.PORT), '127.0.0.1')
