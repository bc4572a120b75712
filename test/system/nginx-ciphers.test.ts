import { once } from 'node:events'
import { connect } from 'node:tls'
import t from 'tap'
import { nginxProgram } from '../helpers/nginx.ts'
import { openSite, sendTls } from '../helpers/proxied-site.ts'

t.test(
  'With TLS 1.2 nginx takes AEAD suites alone.',
  { skip: nginxProgram === undefined && 'nginx is not installed' },
  async t => {
    const site = await openSite(t, 'tls.conf', origin => ({ PUBLIC_URL: origin }))
    const { hostname, port } = new URL(site.origin)
    const suiteOf = async (ciphers: string) => {
      const socket = connect({
        host: hostname,
        port: Number(port),
        ciphers,
        maxVersion: 'TLSv1.2',
        rejectUnauthorized: false
      })
      t.teardown(() => {
        socket.destroy()
      })
      return once(socket, 'secureConnect').then(() => socket.getCipher().name, error => error.code)
    }
    for (
      const suite of ['ECDHE-ECDSA-AES128-GCM-SHA256', 'ECDHE-ECDSA-AES256-GCM-SHA384', 'ECDHE-ECDSA-CHACHA20-POLY1305']
    ) t.equal(await suiteOf(suite), suite)
    for (const suite of ['ECDHE-ECDSA-AES128-SHA256', 'ECDHE-ECDSA-AES256-SHA', 'ECDHE-ECDSA-AES128-SHA']) {
      t.match(
        await suiteOf(suite),
        /^ERR_SSL/,
        suite
      )
    }
    t.equal((await sendTls(site, '/api/private')).status, 200, 'TLS 1.3')
  }
)
