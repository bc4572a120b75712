import t from 'tap'
import { readOriginal } from '../../../lib/gate/original.ts'
import { Message, type ReceivedRequest } from '../../../lib/guard/message.ts'

t.test('If Envoy states no scheme, it is that of its own connection.', async t => {
  for (const [encrypted, scheme] of [[true, 'https'], [false, 'http']] as const) {
    const message = new Message(
      {
        method: 'GET',
        url: '/verify/envoy/x',
        headers: { host: 'api.example' },
        rawHeaders: ['Host', 'api.example'],
        socket: { encrypted }
      } as unknown as ReceivedRequest
    )
    t.equal(
      readOriginal('envoy', message, '/x', { publicUrl: undefined, claimHeaders: new Set() }).url.href,
      `${scheme}://api.example/x`
    )
  }
})
