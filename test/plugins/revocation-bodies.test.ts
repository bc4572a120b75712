import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { MAX_EVENT_BYTES_OF_ADDRESS } from '../../lib/revocation/event-body.ts'
import { MAX_SET_BYTES } from '../../lib/revocation/security-event-token.ts'
import { RECEIVER, startRevocation, type Site } from '../helpers/revocation-site.ts'
import { until } from '../helpers/until.ts'

const MAX_EVENT_BYTES = 16 * 1024 * 1024

const OF_ADDRESS = MAX_EVENT_BYTES_OF_ADDRESS / MAX_SET_BYTES
const EVENTS = 'POST /revocation/events HTTP/1.1\r\nContent-Type: application/secevent+jwt'

/**
 * Connections that each begin a body, by a proxy that names the client. An answer may be lost with its connection, so
 * refusals are counted.
 */
function startHolding (t: Test, { url, app }: Site) {
  const answers: string[] = []
  const hold = (count: number, address: string, { request = EVENTS, size = MAX_SET_BYTES } = {}) => {
    for (let n = 0; n < count; n++) {
      const socket = connect(Number(new URL(url).port), '127.0.0.1')
      t.teardown(() => socket.destroy())
      socket.on('error', () => {}).once('data', answer => answers.push(String(answer)))
      socket.write(
        `${request}\r\nHost: a\r\nX-Forwarded-For: ${address}\r\nContent-Length: ${size}\r\n\r\n${'x'.repeat(size - 1)}`
      )
    }
  }
  return { answers, hold, refused: () => app.holdfastGuard.parts.revocation!.counts.get('refused unavailable') ?? 0 }
}

async function startSite (t: Test) {
  return startRevocation(t, {
    values: { TRUST_PROXY: '127.0.0.1' },
    revocation: (transmitter, issuer) => ({
      transmitters: [{ issuer: transmitter.url, audience: RECEIVER, delivery: 'push', tokenIssuers: [issuer.url] }],
      logout: [{ clientId: 'c' }]
    })
  })
}

function revoke ({ transmitter, issuer, push }: Site, sub: string, address: string) {
  return push(transmitter.set({ claims: { sub_id: { format: 'iss_sub', iss: issuer.url, sub } } }), {
    'x-forwarded-for': address
  })
}

t.test(
  'Bodies that are begun and never finished take 4 MiB for one address and 16 MiB for all, and whole events are ' +
    'stored meanwhile, even from the same address',
  async t => {
    const site = await startSite(t)
    const { answers, hold, refused } = startHolding(t, site)
    hold(OF_ADDRESS + 8, '192.0.2.1')
    await until('the share is full', () => refused() === 8 && answers.length > 0)
    const [status, ...lines] = answers[0]!.toLowerCase().split('\r\n')
    t.strictSame([status, lines.includes('retry-after: 1'), lines.includes('connection: close')], [
      'http/1.1 503 service unavailable',
      true,
      true
    ])
    t.equal((await revoke(site, 'one', '192.0.2.9')).status, 202, 'of another address')
    t.equal(refused(), 8)
    // Else nothing gives way.
    if (!t.equal((await revoke(site, 'two', '192.0.2.1')).status, 202, 'of the same address')) return
    // In whichever order bytes have arrived, one has too many now.
    hold(1, '192.0.2.1')
    await until('one more gives way', () => refused() === 9)

    for (const n of [2, 3, 4]) hold(OF_ADDRESS, `192.0.2.${n}`)
    hold(2, '192.0.2.5')
    await until('all room is taken', () => refused() === 4 * OF_ADDRESS + 9 + 2 - MAX_EVENT_BYTES / MAX_SET_BYTES)
    t.equal((await revoke(site, 'three', '192.0.2.9')).status, 202)
    hold(1, '192.0.2.5')
    await until('one more gives way', () => refused() === 12)
    t.strictSame(await Promise.all(['one', 'two', 'three', 'four'].map(sub => site.ask(site.issuer.token({ sub })))), [
      401,
      401,
      401,
      200
    ])
    t.strictSame(answers.filter(answer => !answer.startsWith('HTTP/1.1 503 ')), [])
    t.strictSame(site.log.filter(({ level }) => level >= 50), [])
  }
)

t.test('Logout tokens have the same room', async t => {
  const site = await startSite(t)
  const { hold, refused } = startHolding(t, site)
  hold(MAX_EVENT_BYTES_OF_ADDRESS / (16 * 1024) + 1, '192.0.2.1', {
    size: 16 * 1024,
    request: 'POST /revocation/logout HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded'
  })
  await until('one gives way', () => refused() > 0)
  t.equal((await site.logout('logout_token=a')).status, 400, 'of another address: it is read')
})

for (
  const [title, values] of [['', {}], [' beside a gate', {
    GATE: { upstream: 'http://127.0.0.1:9', rules: [{ path: '/*', methods: ['GET'], allow: 'anyone' }] }
  }]] as const
) {
  t.test(`A sender that waits for 100 is told to send its event${title}`, async t => {
    const { transmitter, issuer, url } = await startRevocation(t, { values })
    const set = transmitter.set({ claims: { sub_id: { format: 'iss_sub', iss: issuer.url, sub: 'u' } } })
    const answersTo = async (length: number, body?: string) => {
      const socket = connect(Number(new URL(url).port), '127.0.0.1')
      socket.write(
        `${EVENTS}\r\nHost: a\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: ${length}\r\n\r\n`
      )
      let text = ''
      for await (const part of socket) {
        text += part
        if (body && text.endsWith('100 Continue\r\n\r\n')) socket.write(body)
      }
      return [...text.matchAll(/^HTTP\/1\.1 (\d+)/gm)].map(([, status]) => status!)
    }
    t.strictSame(await answersTo(set.length, set), ['100', '202'])
    const [last, ...before] = (await answersTo(MAX_SET_BYTES + 1)).reverse()
    t.strictSame([last, before], ['413', title === '' ? ['100'] : []])
  })
}

t.test('A body that is too large is 413, by what it says and by what it is', async t => {
  const site = await startSite(t)
  const { answers, hold } = startHolding(t, site)
  hold(1, '192.0.2.1', { size: MAX_SET_BYTES + 1 })
  await until('it is answered', () => answers.length === 1)
  t.equal(answers[0]!.startsWith('HTTP/1.1 413 '), true)
  const chunk = 'x'.repeat(MAX_SET_BYTES)
  const send = (body: string) =>
    fetch(
      `${site.url}/revocation/events`,
      {
        method: 'POST',
        headers: { 'content-type': 'application/secevent+jwt' },
        body: new Blob([body]).stream(),
        duplex: 'half'
      } as RequestInit
    )
  t.strictSame([(await send(chunk)).status, (await send(`${chunk}x`)).status], [400, 413])
})
