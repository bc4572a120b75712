import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { exactly } from '../helpers/containing.ts'
import { nginxProgram } from '../helpers/nginx.ts'
import {
  openSite,
  readPointers,
  readResource,
  send,
  sendHttp2,
  sendTls,
  startScoped,
  type Answer,
  type Site,
  type StartService
} from '../helpers/proxied-site.ts'
import { sendRaw } from '../helpers/wire.ts'

const skip = nginxProgram === undefined && 'nginx is not installed'
const ACCEPTED = { status: 200, reason: 'accepted' }
const MISMATCH = { status: 401, reason: 'htu_mismatch' }
/** By nginx itself: the service has not seen it. */
const MISDIRECTED = { status: 421, reason: 'none' }

/** What a client could send to pass for another one: all of it must be gone behind nginx. */
const FORGED = [
  'X-Forwarded-Proto: https',
  'X-Forwarded-Host: evil.example',
  'X-Forwarded-Port: 1234',
  'X-Forwarded-Prefix: /evil',
  'Forwarded: proto=https;host=evil.example',
  'X-Forwarded-For: 192.0.2.1',
  'X-Forwarded-Proto: javascript',
  'X-Forwarded-Host: h/test?'
]

/** The like by name, for clients that take no lines. */
const FORGED_FIELDS = {
  'x-forwarded-proto': 'http',
  'x-forwarded-host': 'evil.example',
  'x-forwarded-port': '1234',
  'x-forwarded-prefix': '/evil',
  forwarded: 'proto=http;host=evil.example'
}

// Each must come through nginx byte for byte.
const PATHS = [
  '/api/private',
  '/api/users/1',
  '/api/users/a%2Fb',
  '/api/users/a%2fb',
  '/api/users//x',
  '/api/users//',
  '/api/users/x/',
  '/api/users/a%20b',
  '/api/users/%C3%A9%E6%97%A5',
  '/api/users/%c3%a9',
  '/api/users/%7Ejoe/~joe',
  '/api/users/%3Fx%23y',
  '/api/users/a%5Cb',
  '/api/users/a%25b%252Fc',
  '/api/users/a+b;c=d,e:f@g',
  '/api/users/UPPER',
  '/api/users/a|b{c}',
  '/api/users/x.y/...',
  `/api/users/${'x'.repeat(2000)}`
]

/** The paths, queries and forgeries that every configuration must handle. `base` is what the client has before /api. */
async function tryPaths (t: Test, site: Site, base: string) {
  for (const path of PATHS) t.strictSame(await send(site, base + path), ACCEPTED, `${base}${path.slice(0, 60)}`)
  t.strictSame(
    await send(site, `${base}/api/users/a%2Fb`, `${site.origin}${base}/api/users/a/b`),
    MISMATCH,
    'an escaped slash is no slash'
  )
  t.strictSame(
    await send(site, `${base}/api/users//x`, `${site.origin}${base}/api/users/x`),
    MISMATCH,
    'two slashes are not one'
  )
  t.strictSame(
    await send(site, `${base}/api/users/1`, `${site.origin}${base}/api/users/1/`),
    MISMATCH,
    'a slash at the end counts'
  )
  t.strictSame(
    await send(site, `${base}/api/users/1`, `${site.origin}${base}/api/private`),
    MISMATCH,
    'the proof of another resource'
  )
  t.strictSame(
    await send(site, `${base}/api/private?${'q=%2F..//&'.repeat(400)}`, `${site.origin}${base}/api/private`),
    ACCEPTED,
    'a long query'
  )
  t.strictSame(
    await send(site, `${base}/api/%70rivate`, `${site.origin}${base}/api/private`),
    ACCEPTED,
    'an escaped letter'
  )

  const dots = { status: 401, reason: 'target_path' }
  t.strictSame(await send(site, `${base}/api/users/./x`), dots)
  t.strictSame(await send(site, `${base}/api/users/x/../y`), dots)
  t.strictSame(await send(site, `${base}/api/users/%2e%2e/users/y`), dots)
  t.strictSame(await send(site, `${base}/api/users/\u00c3\u00a9`, `${site.origin}${base}/api/users/%C3%A9`), {
    status: 400,
    reason: 'none'
  }, 'no URL holds such bytes')
}

async function tryForgeries (t: Test, site: Site, base: string) {
  const path = `${base}/api/private`
  t.strictSame(await send(site, path, undefined, FORGED), ACCEPTED, 'all forged headers at once')
  for (const line of FORGED) t.strictSame(await send(site, path, undefined, [line]), ACCEPTED, line)
  const forged = [
    'https://evil.example',
    'https://evil.example/evil',
    'http://evil.example:1234/evil',
    `${site.origin}/evil`
  ]
  for (const htu of forged) t.strictSame(await send(site, path, htu + path, FORGED), MISMATCH, `a proof for ${htu}`)

  const port = new URL(site.origin).port
  t.strictSame(
    await send(site, path, `http://evil.example:${port}${path}`, [], `evil.example:${port}`),
    MISDIRECTED,
    'another host'
  )
  t.strictSame(
    await send(
      site,
      `http://localhost:${port}${path}`,
      `http://evil.example:${port}${path}`,
      [],
      `evil.example:${port}`
    ),
    MISDIRECTED,
    'another host behind an absolute target'
  )
  t.strictSame(await send(site, path, undefined, [], `LOCALHOST:${port}`), ACCEPTED, 'the host in upper case')
}

/**
 * Proofs for any authority but those of the configuration, each sent under that authority: nginx believes none of them.
 */
async function tryAuthorities (t: Test, site: Site, base: string) {
  const name = 'www.example.com'
  const path = `${base}/api/private`
  for (const host of [name, `${name}:80`, 'WWW.Example.COM']) {
    t.strictSame(await send(site, path, `http://${name}${path}`, [], host), ACCEPTED, `Host: ${host}`)
  }
  t.strictSame(await send(site, path, `http://${name}:8443${path}`, [], name), MISMATCH, 'a proof for another port')
  for (
    const host of [
      `${name}:8443`,
      `${name}:80:8443`,
      `${name}:8443:80`,
      `${name}:443`,
      `${name}:`,
      `${name}:080`,
      `${name}.`,
      'evil.example',
      `evil.${name}`,
      'localhost',
      '127.0.0.1'
    ]
  ) {
    t.strictSame(await send(site, path, `http://${host}${path}`, [], host), MISDIRECTED, `Host: ${host}`)
    // Read leniently, some of them name that port.
    t.strictSame(
      await send(site, path, `http://${name}:8443${path}`, [], host),
      MISDIRECTED,
      `Host: ${host}, a proof for port 8443`
    )
  }
  for (const host of [`user@${name}`, `${name}, evil.example`, `${name} evil.example`]) {
    t.match(
      await send(site, path, undefined, [], host),
      { status: /^4(?:00|21)$/, reason: exactly('none') },
      `Host: ${host}`
    )
  }
  t.strictSame(await send(site, path, `http://${name}${path}`, ['Host: evil.example'], name), {
    status: 400,
    reason: 'none'
  }, 'two Host lines')
  t.equal((await sendRaw(site.origin, [`GET ${path} HTTP/1.0`])).status, 421, 'no Host')

  const targets = [
    { origin: `http://${name}`, host: name, answer: ACCEPTED },
    { origin: `http://${name}:80`, host: `${name}:80`, answer: ACCEPTED },
    { origin: `http://${name}:8443`, host: name, answer: MISDIRECTED },
    { origin: `http://${name}`, host: `${name}:8443`, answer: MISDIRECTED },
    { origin: `http://${name}:8443`, host: `${name}:8443`, answer: MISDIRECTED },
    { origin: 'http://evil.example', host: name, answer: MISDIRECTED },
    { origin: `https://${name}`, host: name, answer: MISDIRECTED }
  ]
  for (const { origin, host, answer } of targets) {
    t.strictSame(await send(site, origin + path, origin + path, [], host), answer, `${origin} beside Host: ${host}`)
  }
}

async function tryMonitoring (t: Test, site: Site, base: string) {
  const status = async (target: string) =>
    (await sendRaw(site.origin, [`GET ${target} HTTP/1.1`, `Host: ${new URL(site.origin).host}`, 'Connection: close']))
      .status
  t.equal(await status(`${base}/health/live`), 200)
  t.equal(await status(`${base}/api/public`), 200)
  for (const path of ['/metrics', '/%6detrics', '//metrics', '/./metrics', '/x/../metrics', '/metrics?x']) {
    t.equal(await status(base + path), 404, `${path} is not passed on`)
  }
}

/**
 * Whoever looks for the metadata of the resource that he called finds it, and that of no other (RFC 9728 section 3).
 */
async function tryDiscovery (
  t: Test,
  site: Site,
  base: string,
  { hasPublicUrl }: { hasPublicUrl: boolean }
) {
  const wellKnown = `${site.origin}/.well-known/oauth-protected-resource`
  // Without PUBLIC_URL a challenge points nowhere, and the client works the address out by itself.
  const pointer = hasPublicUrl ? wellKnown + base : undefined
  t.strictSame(await readPointers(`${site.origin}${base}/api/private`), [pointer, pointer])

  t.equal(await readResource(wellKnown + base), site.origin + base)
  t.equal(await readResource(`${wellKnown}${base}?x=1`), site.origin + base, 'with a query')
  t.equal(await readResource(wellKnown + base, FORGED_FIELDS), site.origin + base, 'whatever a client says of itself')
  for (const other of ['/other', `${base}/`, `${base}/other`]) {
    t.equal(await readResource(wellKnown + other), 404, other)
  }
  if (base !== '') t.equal(await readResource(wellKnown), 404, 'the site around it is another resource')
}

t.test('Under a prefix that nginx strips', { skip }, async t => {
  t.test('with the proxy trusted', async t => {
    const site = await openSite(t, 'prefix.conf', () => ({ TRUST_PROXY: '127.0.0.1' }))
    await tryPaths(t, site, '/svc')
    await tryForgeries(t, site, '/svc')
    await tryAuthorities(t, site, '/svc')
    await tryMonitoring(t, site, '/svc')
    await tryDiscovery(t, site, '/svc', { hasPublicUrl: false })
    t.strictSame(
      await send(site, '/svc/api/private', `${site.origin}/api/private`),
      MISMATCH,
      'a proof without the prefix'
    )
    t.strictSame(
      await send(site, '/svc/api/private', site.origin.replace('http:', 'https:') + '/svc/api/private'),
      MISMATCH,
      'a proof of another scheme'
    )
    t.strictSame(
      await send(site, '/svc/api/private', 'http://localhost/svc/api/private'),
      MISMATCH,
      'a proof without the port'
    )
    for (const target of ['/%73vc/api/private', '//svc/api/private', '/x/../svc/api/private']) {
      t.strictSame(
        await send(site, target, `${site.origin}/svc/api/private`),
        { status: 400, reason: 'none' },
        `${target} starts with another prefix`
      )
    }
  })

  t.test('with only PUBLIC_URL', async t => {
    const site = await openSite(t, 'prefix.conf', origin => ({ PUBLIC_URL: `${origin}/svc` }))
    await tryPaths(t, site, '/svc')
    await tryDiscovery(t, site, '/svc', { hasPublicUrl: true })
    t.strictSame(await send(site, '/svc/api/private', undefined, FORGED), ACCEPTED)
  })

  t.test('with neither, the log names the cause', async t => {
    const site = await openSite(t, 'prefix.conf', () => ({}))
    t.strictSame(await send(site, '/svc/api/private'), MISMATCH)
    const { htu, url, cause } = site.running.log.find(line => line.reason === 'htu_mismatch')!
    t.strictSame({ htu, url, cause }, {
      htu: `${site.origin}/svc/api/private`,
      url: `${site.origin}/api/private`,
      cause: 'prefix'
    })
  })

  t.test('over a unix socket', { skip: process.platform === 'win32' && 'there are none' }, async t => {
    const path = join(tmpdir(), `holdfast-${process.pid}.sock`)
    // A list names addresses, and the peer of a unix socket has none.
    const expected: Array<[string, Answer]> = [['true', ACCEPTED], ['loopback', MISMATCH]]
    for (const [value, answer] of expected) {
      await t.test(`with TRUST_PROXY=${value}`, async t => {
        const site = await openSite(
          t,
          'prefix.conf',
          () => ({ TRUST_PROXY: value }),
          (t, issuer, values) => startScoped(t, issuer, values, { path }),
          `unix:${path}`
        )
        t.strictSame(await send(site, '/svc/api/private'), answer)
      })
    }
  })
})

t.test('Under a prefix that nginx keeps', { skip }, async t => {
  const startPrefixed: StartService = (t, issuer, values) => startScoped(t, issuer, values, { prefix: '/svc' })
  t.test('with the proxy trusted', async t => {
    const site = await openSite(t, 'prefix-kept.conf', () => ({ TRUST_PROXY: 'loopback' }), startPrefixed)
    await tryPaths(t, site, '/svc')
    await tryForgeries(t, site, '/svc')
    await tryAuthorities(t, site, '/svc')
    await tryMonitoring(t, site, '/svc')
    await tryDiscovery(t, site, '/svc', { hasPublicUrl: false })
  })

  t.test('with only PUBLIC_URL', async t => {
    const site = await openSite(t, 'prefix-kept.conf', origin => ({ PUBLIC_URL: origin }), startPrefixed)
    await tryPaths(t, site, '/svc')
    await tryDiscovery(t, site, '/svc', { hasPublicUrl: true })
  })
})

t.test('With TLS at a name of its own', { skip }, async t => {
  t.test('with the proxy trusted, over HTTP/1.1 and HTTP/2', async t => {
    const site = await openSite(t, 'tls.conf', () => ({ TRUST_PROXY: '127.0.0.1' }))
    for (const path of PATHS) t.strictSame(await sendTls(site, path), ACCEPTED, `${path.slice(0, 60)} over HTTP/1.1`)
    const answers = await sendHttp2(site, PATHS.map(target => ({ target })))
    answers.forEach((answer, index) => t.strictSame(answer, ACCEPTED, `${PATHS[index]!.slice(0, 60)} over HTTP/2`))

    const path = '/api/private'
    t.strictSame(await sendTls(site, path, undefined, FORGED_FIELDS), ACCEPTED)
    t.strictSame(await sendTls(site, path, `http://evil.example:1234/evil${path}`, FORGED_FIELDS), MISMATCH)
    t.strictSame(await sendTls(site, path, site.origin.replace('https:', 'http:') + path), MISMATCH)
    t.strictSame(await sendTls(site, '/api/users/x/../y'), { status: 401, reason: 'target_path' })
    t.strictSame(
      await sendHttp2(site, [
        { target: `${path}?${'q=%2F&'.repeat(500)}`, htu: site.origin + path },
        { target: path, extra: FORGED_FIELDS },
        { target: path, htu: `http://evil.example:1234/evil${path}`, extra: FORGED_FIELDS },
        { target: '/api/users/a%2Fb', htu: `${site.origin}/api/users/a/b` },
        { target: '/api/users/x/../y' }
      ]),
      [ACCEPTED, ACCEPTED, MISMATCH, MISMATCH, { status: 401, reason: 'target_path' }]
    )
    await tryDiscovery(t, site, '', { hasPublicUrl: false })
  })

  t.test('with an authority that is not configured, over HTTP/1.1 and HTTP/2', async t => {
    const site = await openSite(t, 'tls.conf', () => ({ TRUST_PROXY: '127.0.0.1' }))
    const name = 'api.example.com'
    const path = '/api/private'
    const hosts: Array<[host: string, answer: Answer]> = [
      [name, ACCEPTED],
      [`${name}:443`, ACCEPTED],
      ['API.Example.COM', ACCEPTED],
      ...[`${name}:8443`, `${name}:443:8443`, `${name}:80`, `${name}:`, `${name}.`, 'evil.example', 'localhost'].map((
        host
      ): [string, Answer] => [host, MISDIRECTED])
    ]
    for (const [host, answer] of hosts) {
      const htu = answer === ACCEPTED ? `https://${name}${path}` : `https://${host}${path}`
      t.strictSame(await sendTls(site, path, htu, { host }), answer, `Host: ${host}`)
      t.strictSame(
        await sendHttp2(site, [{ target: path, htu, extra: { ':authority': host } }]),
        [answer],
        `:authority ${host}`
      )
    }
    for (const host of ['evil.example', `${name}:8443`]) {
      const [answer] = await sendHttp2(site, [{
        target: path,
        htu: `https://${host}${path}`,
        extra: { ':authority': name, host }
      }])
      t.match(answer, { status: /^4(?:00|21)$/, reason: exactly('none') }, `:authority ${name} beside Host: ${host}`)
    }
  })

  t.test('with only PUBLIC_URL', async t => {
    const site = await openSite(t, 'tls.conf', origin => ({ PUBLIC_URL: origin }))
    t.strictSame(await sendTls(site, '/api/private', undefined, FORGED_FIELDS), ACCEPTED)
    t.strictSame(await sendHttp2(site, [{ target: '/api/private' }]), [ACCEPTED])
    await tryDiscovery(t, site, '', { hasPublicUrl: true })
  })

  t.test('with neither, the log names the cause', async t => {
    const site = await openSite(t, 'tls.conf', () => ({}))
    t.strictSame(await sendTls(site, '/api/private'), MISMATCH)
    t.equal(site.running.log.find(line => line.reason === 'htu_mismatch')!.cause, 'scheme')
  })
})

t.test('nginx keeps its connection to the service', { skip }, async t => {
  const site = await openSite(t, 'prefix.conf', () => ({ TRUST_PROXY: 'loopback' }))
  let connections = 0
  site.running.app.server.on('connection', () => connections++)
  for (let n = 0; n < 10; n++) t.strictSame(await send(site, `/svc/api/users/${n}`), ACCEPTED)
  t.equal(connections, 1)
})
