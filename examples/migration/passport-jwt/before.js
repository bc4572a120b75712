import express from 'express'
import jwksRsa from 'jwks-rsa'
import passport from 'passport'
import { ExtractJwt, Strategy } from 'passport-jwt'

const { ISSUER, AUDIENCE, PORT } = process.env

passport.use(
  new Strategy({
    jwtFromRequest: ExtractJwt.fromAuthHeaderAsBearerToken(),
    secretOrKeyProvider: jwksRsa.passportJwtSecret({ jwksUri: `${ISSUER}keys`, cache: true, rateLimit: true }),
    issuer: ISSUER,
    audience: AUDIENCE,
    algorithms: ['RS256']
  }, (payload, done) => done(null, payload))
)

const app = express()

app.get('/orders', passport.authenticate('jwt', { session: false }), (req, res) => res.json({ of: req.user.sub }))

app.listen(Number(PORT))
