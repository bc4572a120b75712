import express from 'express'
import { auth, requiredScopes } from 'express-oauth2-jwt-bearer'

const { ISSUER, AUDIENCE, PORT } = process.env

const app = express()
const needs = [auth({ issuerBaseURL: ISSUER, audience: AUDIENCE }), requiredScopes('read:orders')]

app.get('/orders', needs, (req, res) => res.json({ of: req.auth.payload.sub }))

app.listen(Number(PORT))
