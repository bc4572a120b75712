// Install: npm install express jose
// Start: PORT=3000 node app.mjs
import express from 'express'
import { createRemoteJWKSet, errors, jwtVerify } from 'jose'

/** jose would not check an issuer or audience that is undefined. */
function required (name) {
  if (!process.env[name]) throw new Error(`${name} is not set`)
  return process.env[name]
}

const issuer = required('STATEMENT_ISSUER') // PUBLIC_URL of the gate
const audience = required('STATEMENT_AUDIENCE') // gate.upstream
// Anybody can name an unknown key: it has the list read again, but not more often than once in the cooldown.
// http://GATE/.well-known/holdfast-jwks.json
const keys = createRemoteJWKSet(new URL(required('STATEMENT_KEYS')), { cacheMaxAge: 300_000, cooldownDuration: 5000 })

async function readCaller (statement, method, path) {
  const { payload } = await jwtVerify(statement, keys, {
    algorithms: ['ES256'],
    issuer,
    audience,
    clockTolerance: 5,
    requiredClaims: ['exp', 'sub_id']
  })
  if (payload.method !== method || payload.path !== path) throw new errors.JWTInvalid('It is about another request')
  // Two issuers may have the same subject for different people, so only both together say who it is.
  return { issuer: payload.sub_id.iss, subject: payload.sub_id.sub }
}

const app = express()

app.use(async (request, response, next) => {
  try {
    // request.url lacks the path under which a router is mounted.
    const path = request.originalUrl.split('?', 1)[0]
    response.locals.caller = await readCaller(request.get('x-auth-statement') ?? '', request.method, path)
  } catch (error) {
    if (!(error instanceof errors.JOSEError)) throw error
    console.warn(`statement refused: ${error.message}`)
    return response.sendStatus(401)
  }
  next()
})

for (const method of ['get', 'post']) {
  app[method]('/orders/:name', (request, response) => {
    response.json({ ...response.locals.caller, method: request.method, order: request.params.name })
  })
}

app.listen(process.env.PORT, '127.0.0.1')
