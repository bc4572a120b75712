import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { test } from 'node:test'
import Fastify from 'fastify'
import service from 'holdfast/service'
import { createTestIssuer } from 'holdfast/testing'
import { parse } from 'yaml'

test('The rules of config.yaml decide who reaches the service', async () => {
  const upstream = createServer((request, response) => response.end(request.headers['x-auth-subject'])).listen(0)
  await once(upstream, 'listening')
  const idp = await createTestIssuer()
  const { gate } = parse(readFileSync('config.yaml', 'utf8'))
  const server = Fastify()
  const to = `http://127.0.0.1:${upstream.address().port}`
  await server.register(service, { ...idp.options, gate: { ...gate, upstream: to } })
  const send = (method, url, token) =>
    server.inject({ method, url, headers: token ? { authorization: `Bearer ${token}` } : {} })

  const reader = await idp.token({ sub: 'ann', scope: 'read:orders' })
  assert.equal((await send('GET', '/status')).statusCode, 200)
  assert.equal((await send('GET', '/orders/7')).statusCode, 401)
  assert.equal((await send('GET', '/orders/7', reader)).body, 'ann')
  assert.equal((await send('DELETE', '/orders/7', reader)).statusCode, 403)
  assert.equal((await send('GET', '/orders/7', await idp.expiredToken({ scope: 'read:orders' }))).statusCode, 401)
  assert.equal((await send('GET', '/elsewhere', reader)).statusCode, 404)

  await server.close()
  upstream.close()
})
