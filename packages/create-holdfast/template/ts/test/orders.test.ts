import assert from 'node:assert/strict'
import { test } from 'node:test'
import Fastify from 'fastify'
import { createTestIssuer } from 'holdfast/testing'
import app from '../app.js'

test('GET /orders is for callers with read:orders', async () => {
  const idp = await createTestIssuer()
  const server = Fastify()
  await server.register(app, { guard: idp.options })
  const statusOf = async (token?: string): Promise<number> =>
    (await server.inject({ url: '/orders', headers: token ? { authorization: `Bearer ${token}` } : {} })).statusCode

  const scope = 'read:orders'
  assert.equal(await statusOf(), 401)
  assert.equal(await statusOf(await idp.token({ scope })), 200)
  assert.equal(await statusOf(await idp.token({ scope: 'read:others' })), 403)
  assert.equal(await statusOf(await idp.expiredToken({ scope })), 401)
  assert.equal(await statusOf(await idp.wrongAudienceToken({ scope })), 401)

  // A token that is bound to the key of its client (DPoP) is of no use to a thief.
  const client = await idp.dpopClient({ scope, sub: 'ann' })
  assert.deepEqual((await client.inject(server, '/orders')).json(), { of: 'ann' })
  assert.equal((await client.stolen(server, '/orders')).statusCode, 401)

  assert.equal((await server.inject('/health')).statusCode, 200)
  await server.close()
})
