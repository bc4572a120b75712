import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import t from 'tap'
import { startPlayground, type PlaygroundOptions } from '../../dev/serve/playground.ts'
import { readSettings } from '../../holdfast.ts'
import { freePort } from '../helpers/free-port.ts'

t.test('The playground answers to its own name alone, and takes nothing that a page of another site posts', async t => {
  const port = await freePort()
  const provider = { issuer: 'http://localhost:2', audience: 'a', browserClientId: 'b' } as PlaygroundOptions['provider']
  const settings = await readSettings({ IDP_DOMAIN: 'tenant.example', IDP_AUDIENCE: 'https://api.example' })
  const page = await startPlayground({ port, api: 'http://localhost:1', provider, settings })
  t.teardown(() => page.close())
  const ask = async (path: string, headers: Record<string, string>, method = 'GET') => {
    const asked = request({ port, host: '127.0.0.1', path, method, headers }).end(method === 'POST' ? '{}' : undefined)
    const [answer] = await once(asked, 'response') as [IncomingMessage]
    answer.resume()
    return answer.statusCode
  }
  const host = `localhost:${port}`
  t.equal(await ask('/config.json', { host }), 200)
  t.equal(await ask('/config.json', { host: `evil.example:${port}` }), 421)
  t.equal(await ask('/explain', { host, origin: `http://${host}` }, 'POST'), 200)
  t.equal(await ask('/explain', { host, origin: 'https://evil.example' }, 'POST'), 403)
})
