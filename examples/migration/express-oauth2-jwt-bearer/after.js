import express from 'express'
import { createGuard } from 'holdfast/guard'

const { ISSUER, AUDIENCE, PORT } = process.env

const app = express()
const guard = await createGuard({ idp: { issuer: ISSUER, audience: AUDIENCE } })

const needs = requirement => (req, res, next) => {
  guard.check(req, requirement).then(verdict => {
    if (!verdict.admitted) return res.writeHead(verdict.status, verdict.headers).end(verdict.body)
    req.caller = verdict.user
    res.set(verdict.headers)
    next()
  }, next)
}

app.get('/orders', needs({ scope: 'read:orders' }), (req, res) => res.json({ of: req.caller.sub }))

app.listen(Number(PORT))
