import express from 'express'

// No guard at all: what the framework itself costs.
const app = express()
app.get('/api/public', (request, response) => {
  response.json({ message: 'This is public.' })
})
app.get('/api/private', (request, response) => {
  response.json({ message: 'You are signed in.', user_id: 'bench|00000000' })
})
app.listen(Number(process.env.PORT), '127.0.0.1')
