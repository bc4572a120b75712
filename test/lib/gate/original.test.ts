import t from 'tap'
import { readOriginal } from '../../../lib/gate/original.ts'
import { Message } from '../../../lib/message.ts'
import type { ReceivedRequest } from '../../../lib/message.ts'

t.test('Where Envoy tells no scheme, it is that of its own connection.', async t => {
  for (const [encrypted, scheme] of [[true, 'https'], [false, 'http']] as const) {
    const message = new Message({ method: 'GET', url: '/verify/envoy/x', headers: { host: 'api.example' }, rawHeaders: ['Host', 'api.example'], socket: { encrypted } } as unknown as ReceivedRequest)
    t.equal(readOriginal('envoy', message, '/x').url.href, `${scheme}://api.example/x`)
  }
})
