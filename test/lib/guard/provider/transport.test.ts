import { spawn } from 'node:child_process'
import dns from 'node:dns'
import { getEventListeners, once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { connect, createServer as createTcpServer, type AddressInfo, type Socket } from 'node:net'
import t from 'tap'
import { parseNoProxy } from '../../../../lib/guard/provider/proxies.ts'
import { createTransport, withSession, type TransportOptions } from '../../../../lib/guard/provider/transport.ts'
import { startConnectProxy } from '../../../helpers/connect-proxy.ts'
import { listen } from '../../../helpers/listen.ts'
import { until } from '../../../helpers/until.ts'
import {
  cutShort,
  drip,
  endless,
  gzipBomb,
  hang,
  html,
  json,
  providerCertificate,
  redirect,
  reset,
  startHostileProvider,
  text,
  type Behaviour
} from '../../../helpers/hostile-provider.ts'

async function get (url: string, options: TransportOptions = {}) {
  const session = createTransport(options).open()
  try {
    return await session.send(url)
  } finally {
    session.close()
  }
}

t.test('an answer is read to its end, whatever its status', async t => {
  const provider = await startHostileProvider()
  t.teardown(provider.close)
  let headers: unknown
  provider.jwks = (request, response) => {
    headers = request.headers
    json({ keys: [] })(request, response)
  }
  t.strictSame(JSON.parse((await get(provider.jwksUri)).body.toString()), { keys: [] })
  t.hasStrict(headers, {
    accept: 'application/json, application/jwk-set+json, */*;q=0.1',
    'accept-encoding': 'identity',
    'user-agent': 'holdfast',
    'content-type': undefined
  }, 'no compression is requested')
  provider.jwks = html(503)
  t.hasStrict(await get(provider.jwksUri), { status: 503, headers: { 'content-type': 'text/html' } })
})

t.test('A key set is had from a server that negotiates and has only application/jwk-set+json', async t => {
  const provider = await startHostileProvider()
  t.teardown(provider.close)
  for (
    const [type, accepted] of [['application/jwk-set+json', true], ['application/json', true], [
      'text/plain',
      true
    ]] as const
  ) {
    provider.jwks = (request, response) => {
      const ranges = request.headers.accept!.split(',').map(range => range.split(';')[0]!.trim())
      const status = ranges.includes(type) || ranges.includes('*/*') ? 200 : 406
      response.writeHead(status, { 'content-type': type }).end('{"keys":[]}')
    }
    t.equal((await get(provider.jwksUri)).status === 200, accepted, type)
  }
})

t.test('Content-Encoding may say identity in any case, or nothing, and a refused one is named', async t => {
  const provider = await startHostileProvider()
  t.teardown(provider.close)
  for (const coding of ['identity', 'Identity', 'IDENTITY', '', ' ', 'identity, identity', ['identity', '']]) {
    provider.jwks = (_request, response) => {
      response.setHeader('content-encoding', coding).end('{}')
    }
    t.equal((await get(provider.jwksUri)).body.toString(), '{}', JSON.stringify(coding))
  }
  for (
    const [coding, found] of [['gzip', 'gzip'], ['identity, Br', 'Br'], [['gzip', 'x-own'], 'gzip, x-own']] as const
  ) {
    provider.jwks = (_request, response) => {
      response.setHeader('content-encoding', coding).end('{}')
    }
    await t.rejects(get(provider.jwksUri), {
      name: 'ProviderFailure',
      word: 'content_encoding',
      facts: { expected: 'identity', found }
    }, found)
  }
})

/**
 * A server on 127.0.0.1 that is stopped until the test lets it go on: a second connection gets no answer to its SYN,
 * which is sent again after 1 s.
 */
async function startSlowHandshake () {
  const program = spawn(process.execPath, [
    '-e',
    "const server = require('node:http').createServer((_, response) => response.end('{}')); server.listen({ " +
    "port: 0, host: '127.0.0.1', backlog: 1 }, () => { console.log(server.address().port) })"
  ])
  const [line] = await once(program.stdout, 'data') as [Buffer]
  const port = Number(line.toString())
  program.kill('SIGSTOP')
  const fillers = Array.from({ length: 8 }, () => connect(port, '127.0.0.1').on('error', () => {}))
  await once(fillers[0]!, 'connect')
  return {
    port,
    letGoOn: () => {
      program.kill('SIGCONT')
    },
    close () {
      for (const filler of fillers) filler.destroy()
      program.kill('SIGKILL')
    }
  }
}

t.test('A provider with a slow handshake beside an address without a route is reached', {
  skip: process.platform !== 'linux'
}, async t => {
  const { lookup } = dns
  t.teardown(() => {
    dns.lookup = lookup
  })
  // On a busy machine the second SYN may be lost too, and the third comes after 3 s. The handshake is slow in each try.
  const tries: unknown[] = []
  while (tries.length < 5 && !tries.includes(200)) {
    const slow = await startSlowHandshake()
    t.teardown(slow.close)
    // The slow address first: the last one would get as long as it takes.
    dns.lookup = ((_host: string, _options: object, done: (error: null, addresses: object[]) => void) => {
      done(null, [{ address: '127.0.0.1', family: 4 }, { address: '::1', family: 6 }])
      // By then the first SYN has been sent, and lost.
      setImmediate(slow.letGoOn)
    }) as typeof dns.lookup
    tries.push(await get(`http://slow.test:${slow.port}/`).then(({ status }) => status, error => error))
  }
  t.equal(tries.at(-1), 200)
})

t.test('a hostile answer is a failure with a stable word', async t => {
  const provider = await startHostileProvider()
  t.teardown(provider.close)
  const mebibyte = 1024 * 1024
  const cases: Array<{ title: string, behaviour: Behaviour, failure: { word: string, detail?: number | string } }> = [
    { title: 'no answer', behaviour: hang(), failure: { word: 'deadline' } },
    { title: 'a drip that never idles', behaviour: drip(), failure: { word: 'deadline' } },
    { title: 'a connection that is reset', behaviour: reset(), failure: { word: 'unreachable' } },
    { title: 'a body that is cut short', behaviour: cutShort(), failure: { word: 'unreachable' } },
    {
      title: 'a length that is no number',
      behaviour: request => {
        request.socket.end('HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}')
      },
      failure: { word: 'unreachable', detail: 'HTTPParserError' }
    },
    {
      title: 'an answer that is not HTTP',
      behaviour: request => {
        request.socket.end('keys')
      },
      failure: { word: 'unreachable' }
    },
    { title: 'a body without end', behaviour: endless(), failure: { word: 'too_large' } },
    { title: 'a body that says it is 1 GB', behaviour: endless(2 ** 30), failure: { word: 'too_large' } },
    {
      title: 'a body that says it is 1 GB, and does not come',
      behaviour: (_request, response) => {
        response.writeHead(200, { 'content-length': 2 ** 30 }).write(' ')
      },
      failure: { word: 'too_large' }
    },
    { title: 'a body of one byte too many', behaviour: text(' '.repeat(mebibyte + 1)), failure: { word: 'too_large' } },
    { title: 'a gzip bomb', behaviour: gzipBomb(), failure: { word: 'content_encoding' } },
    { title: 'a redirect', behaviour: redirect('/.well-known/jwks.json'), failure: { word: 'redirect', detail: 302 } },
    {
      title: 'a choice',
      behaviour: redirect('/.well-known/jwks.json', 300),
      failure: { word: 'redirect', detail: 300 }
    },
    {
      title: 'the last of their class',
      behaviour: redirect('/.well-known/jwks.json', 399),
      failure: { word: 'redirect', detail: 399 }
    },
    {
      title: 'a permanent redirect',
      behaviour: redirect(`${provider.url}/.well-known/jwks.json`, 308),
      failure: { word: 'redirect', detail: 308 }
    }
  ]
  provider.fallback = json({ keys: [] })
  for (const { title, behaviour, failure } of cases) {
    provider.jwks = behaviour
    const before = provider.requests.length
    const options = failure.word === 'deadline' ? { deadlineMs: 500 } : {}
    await t.rejects(get(provider.jwksUri, options), { name: 'ProviderFailure', ...failure }, title)
    t.equal(provider.requests.length - before, 1, `${title}: asked once`)
  }
  provider.jwks = text(' '.repeat(mebibyte))
  t.equal((await get(provider.jwksUri)).body.length, mebibyte, '1 MiB is not too large')
  provider.jwks = (_request, response) => {
    response.writeHead(200, { 'content-length': mebibyte }).end(' '.repeat(mebibyte))
  }
  t.equal((await get(provider.jwksUri)).body.length, mebibyte, 'if it says so as well')
  for (const status of [299, 400]) {
    provider.jwks = (_request, response) => {
      response.writeHead(status).end('{}')
    }
    t.equal((await get(provider.jwksUri)).status, status, 'no redirect')
  }
})

t.test('An answer that is not read ends nothing when its connection ends, and the session goes on', async t => {
  let ended = 0
  const heads = ['302 Found', '200 OK\r\nContent-Encoding: gzip', '200 OK\r\nContent-Length: 9999999', '200 OK']
  const server = createTcpServer(socket => {
    socket.on('error', () => {}).once('close', () => ended++).once('data', () => {
      socket.end(`HTTP/1.1 ${heads.shift()}\r\nConnection: close\r\n\r\n${'x'.repeat(65_536)}`)
    })
  })
  const url = `http://127.0.0.1:${await listen(t, server)}/`
  const session = createTransport().open()
  t.teardown(session.close)
  for (const [at, word] of ['redirect', 'content_encoding', 'too_large'].entries()) {
    t.equal((await session.send(url).catch(error => error)).word, word)
    await until('its connection is gone', () => ended > at)
  }
  t.equal((await session.send(url)).body.length, 65_536)
})

t.test('one deadline covers all requests of a session', async t => {
  const provider = await startHostileProvider()
  t.teardown(provider.close)
  const session = createTransport({ deadlineMs: 2000 }).open()
  t.equal((await session.send(provider.jwksUri)).status, 200)
  provider.jwks = drip()
  await t.rejects(session.send(provider.jwksUri), { name: 'ProviderFailure', word: 'deadline' })
  await t.rejects(session.send(provider.jwksUri), { name: 'ProviderFailure', word: 'deadline' })
  t.equal((await get(provider.url)).status, 404)
  t.strictSame(provider.requests, ['/jwks', '/jwks', '/'], 'none is begun after it')
  session.close()
})

t.test('a provider that does not listen is unreachable', async t => {
  const provider = await startHostileProvider()
  await provider.close()
  await t.rejects(get(provider.jwksUri), { name: 'ProviderFailure', word: 'unreachable', detail: 'ECONNREFUSED' })
})

t.test('the certificate of the provider is checked, even if NODE_TLS_REJECT_UNAUTHORIZED turns checks off', async t => {
  const provider = await startHostileProvider({ tls: true })
  t.teardown(provider.close)
  t.equal((await get(provider.jwksUri, { ca: providerCertificate })).status, 200)
  await t.rejects(get(provider.jwksUri), {
    name: 'ProviderFailure',
    word: 'tls',
    detail: 'DEPTH_ZERO_SELF_SIGNED_CERT'
  })

  // Node warns of it, on standard error.
  const { emitWarning } = process
  process.emitWarning = () => {}
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
  t.teardown(() => {
    delete process.env.NODE_TLS_REJECT_UNAUTHORIZED
    process.emitWarning = emitWarning
  })
  await t.rejects(get(provider.jwksUri), { name: 'ProviderFailure', word: 'tls' })
  t.equal(provider.requests.length, 1)
})

t.test('HTTPS_PROXY tunnels to the provider, and the certificate is checked through the tunnel', async t => {
  const provider = await startHostileProvider({ tls: true, hostname: 'idp.test' })
  const stranger = await startHostileProvider({ tls: true, hostname: 'stranger.test' })
  const proxy = await startConnectProxy()
  t.teardown(() => Promise.all([provider.close(), stranger.close(), proxy.close()]))
  const settings = { httpsProxy: proxy.url, ca: providerCertificate }

  t.equal((await get(provider.jwksUri, settings)).status, 200)
  t.strictSame(proxy.tunnels, [`idp.test:${provider.port}`])
  await t.rejects(get(provider.jwksUri, { httpsProxy: proxy.url }), {
    name: 'ProviderFailure',
    word: 'tls',
    detail: 'DEPTH_ZERO_SELF_SIGNED_CERT'
  })
  await t.rejects(get(stranger.jwksUri, settings), {
    name: 'ProviderFailure',
    word: 'tls',
    detail: 'ERR_TLS_CERT_ALTNAME_INVALID'
  })
  t.equal(
    (await get(provider.jwksUri, { ...settings, httpsProxy: proxy.url.slice('http://'.length) })).status,
    200,
    'a proxy without a scheme is an http one'
  )
  t.equal(
    (await get(provider.jwksUri, { ca: providerCertificate, httpProxy: proxy.url })).status,
    200,
    'HTTP_PROXY serves for HTTPS_PROXY'
  )
})

t.test('A proxy whose own certificate is refused is a fault of TLS, and not a provider that cannot be reached', async t => {
  const proxy = await startHostileProvider({ tls: true })
  t.teardown(proxy.close)
  const httpsProxy = new URL(proxy.jwksUri).origin
  await t.rejects(get('https://idp.test/keys', { httpsProxy }), {
    name: 'ProviderFailure',
    word: 'tls',
    detail: 'DEPTH_ZERO_SELF_SIGNED_CERT'
  })
  const [key, cert] = ['key', 'cert'].map(name =>
    readFileSync(new URL(`../../../fixtures/client-a.${name}.pem`, import.meta.url), 'utf8')
  )
  const stranger = createSecureServer({ key, cert }).listen(0, 'localhost')
  t.teardown(() => stranger.close())
  await once(stranger, 'listening')
  await t.rejects(
    get('https://idp.test/keys', {
      httpsProxy: `https://localhost:${(stranger.address() as AddressInfo).port}`,
      ca: cert!
    }),
    { name: 'ProviderFailure', word: 'tls', detail: 'UND_ERR_PRX_TLS' },
    'for another host'
  )
  await proxy.close()
  await t.rejects(get('https://idp.test/keys', { httpsProxy }), {
    name: 'ProviderFailure',
    word: 'unreachable',
    detail: 'ECONNREFUSED'
  })
})

t.test('A proxy that hangs up is asked once, also where connections are kept.', async t => {
  const proxy = await startConnectProxy()
  t.teardown(proxy.close)
  proxy.mode = 'end'
  for (const keepAlive of [false, true]) {
    proxy.tunnels.length = 0
    await t.rejects(get('https://idp.test/', { httpsProxy: proxy.url, keepAlive }), {
      name: 'ProviderFailure',
      word: 'proxy'
    })
    t.strictSame(proxy.tunnels, ['idp.test:443'])
  }
})

t.test('NO_PROXY goes around the proxy, and without it nothing does', async t => {
  const provider = await startHostileProvider({ tls: true })
  const proxy = await startConnectProxy()
  t.teardown(() => Promise.all([provider.close(), proxy.close()]))
  const settings = { httpProxy: proxy.url, httpsProxy: proxy.url, ca: providerCertificate }

  t.equal((await get(provider.jwksUri, { ...settings, noProxy: 'other.example, localhost' })).status, 200)
  t.equal((await get(provider.jwksUri, { ...settings, noProxy: '*' })).status, 200)
  t.equal((await get(provider.jwksUri, { ca: providerCertificate, httpsProxy: '' })).status, 200)
  t.strictSame(proxy.tunnels, [])
  t.equal((await get(provider.jwksUri, { ...settings, noProxy: 'other.example' })).status, 200)
  t.strictSame(
    proxy.tunnels,
    [`localhost:${provider.port}`],
    'https on loopback is proven by its certificate, through a proxy too'
  )
  provider.jwks = endless()
  await t.rejects(get(provider.jwksUri, settings), { name: 'ProviderFailure', word: 'too_large' }, 'with the same limit')
})

t.test('NO_PROXY takes a CIDR and a bare ::1', async t => {
  const proxy = await startConnectProxy()
  t.teardown(() => proxy.close())
  proxy.mode = 'refuse'
  const rows = [
    { url: 'https://127.0.0.1:1/', noProxy: '127.0.0.0/8', isDirect: true },
    { url: 'https://127.0.0.1:1/', noProxy: '10.0.0.0/8, 127.0.0.1/32', isDirect: true },
    { url: 'https://127.0.0.1:1/', noProxy: '10.0.0.0/8', isDirect: false },
    { url: 'https://127.0.0.1:1/', noProxy: '127.0.0.0/33', isDirect: false },
    { url: 'https://127.0.0.1:1/', noProxy: '127.0.0.1', isDirect: true },
    { url: 'https://127.0.0.1:1/', noProxy: '127.0.0.1:2', isDirect: false },
    { url: 'https://[::1]:1/', noProxy: '::1', isDirect: true },
    { url: 'https://[::1]:1/', noProxy: '0:0:0:0:0:0:0:1', isDirect: true },
    { url: 'https://[::1]:1/', noProxy: '[::1]:1', isDirect: true },
    { url: 'https://[::1]:1/', noProxy: '[::1]:2', isDirect: false },
    { url: 'https://[::1]:1/', noProxy: '[::1]x', isDirect: false },
    { url: 'https://[::1]:1/', noProxy: '[::1]:1x', isDirect: false },
    { url: 'https://[::1]:1/', noProxy: '::/64', isDirect: true },
    { url: 'https://[::1]:1/', noProxy: '::2', isDirect: false },
    { url: 'https://[::1]:1/', noProxy: '127.0.0.0/8', isDirect: false },
    { url: 'https://[::1]:1/', noProxy: '::/129', isDirect: false },
    { url: 'https://[::1]:1/', noProxy: '::1/128/1', isDirect: false },
    { url: 'https://localhost:1/', noProxy: '127.0.0.0/8 ::1', isDirect: false }
  ]
  for (const { url, noProxy, isDirect } of rows) {
    const before = proxy.tunnels.length
    await t.rejects(get(url, { httpsProxy: proxy.url, noProxy }), {
      name: 'ProviderFailure',
      word: isDirect ? 'unreachable' : 'proxy',
      facts: { proxy: isDirect ? undefined : new URL(proxy.url).host }
    }, `${url} ${noProxy}`)
    t.equal(proxy.tunnels.length - before, isDirect ? 0 : 1)
  }
  const includes = parseNoProxy('[::1]:443, ::2/x https://host/, idp.test,10.0.0.0/99, *.a.test')
  const included = ['https://[::1]/', 'https://idp.test/', 'https://x.idp.test:1/', 'https://a.test', 'https://b.a.test/']
  t.ok(included.every(url => includes(new URL(url))))
  t.notOk(['http://[::1]/', 'https://[::2]/', 'https://host/', 'https://10.0.0.1/', 'https://xidp.test/', 'https://test/'].some(url => includes(new URL(url))))
  for (
    const [noProxy, url, expected] of [
      ['IDP.test:8443', 'https://idp.test:8443/', true],
      ['IDP.test:8443', 'https://idp.test/', false],
      ['.idp.test:443', 'https://a.idp.test/', true],
      ['a, *', 'https://idp.test/', true],
      ['*:8443', 'https://idp.test/', false],
      ['idp.test:x', 'https://idp.test/', false],
      ['', 'https://idp.test/', false]
    ] as const
  ) t.equal(parseNoProxy(noProxy)(new URL(url)), expected, `${noProxy} ${url}`)
})

t.test('A failure names the URL without its secrets, and the host of the proxy only if one was used', async t => {
  const provider = await startHostileProvider({ tls: true })
  const proxy = await startConnectProxy()
  t.teardown(() => Promise.all([provider.close(), proxy.close()]))
  const secretive = proxy.url.replace('://', '://user:s3cret@')
  const proxied = new URL(proxy.url).host
  const url = `${provider.jwksUri}?key=s3cret`
  const shownUrl = `${provider.jwksUri}?...`
  const rows: Array<{ title: string, options: TransportOptions, proxy: string | undefined }> = [
    { title: 'without a proxy', options: {}, proxy: undefined },
    { title: 'through one', options: { httpsProxy: secretive }, proxy: proxied },
    { title: 'through the one for http', options: { httpProxy: secretive }, proxy: proxied },
    { title: 'around it', options: { httpsProxy: secretive, noProxy: 'localhost' }, proxy: undefined }
  ]
  for (const { title, options, proxy } of rows) {
    const failure = await get(url, options).catch(error => error)
    t.hasStrict(failure, { word: 'tls', detail: 'DEPTH_ZERO_SELF_SIGNED_CERT' }, title)
    t.strictSame(failure.facts, { url: shownUrl, proxy }, title)
    const answer = await get(provider.jwksUri, { ...options, ca: providerCertificate })
    t.strictSame(
      answer.facts,
      { url: provider.jwksUri, proxy, status: 200, contentType: 'application/json' },
      `${title}: so does an answer, for what is made of it`
    )
  }
  provider.jwks = (_request, response) => {
    response.end('{}')
  }
  t.hasStrict((await get(provider.jwksUri, { ca: providerCertificate })).facts, { status: 200, contentType: undefined })
  await proxy.close()
  const failure = await get(url, { httpsProxy: secretive }).catch(error => error)
  t.hasStrict(
    failure,
    { word: 'unreachable', detail: 'ECONNREFUSED', facts: { url: shownUrl, proxy: proxied } },
    'a proxy that does not listen'
  )
})

t.test('http on loopback never goes through a proxy, for the proxy could answer with keys of its own', async t => {
  const provider = await startHostileProvider()
  const proxy = await startConnectProxy()
  t.teardown(() => Promise.all([provider.close(), proxy.close()]))
  const { port } = provider
  const settings: TransportOptions[] = [
    { httpProxy: proxy.url },
    { httpsProxy: proxy.url },
    { httpProxy: proxy.url, httpsProxy: proxy.url, noProxy: 'other.example' }
  ]
  const hosts = ['127.0.0.1', 'localhost', 'LocalHost', '127.1', '0x7f.0.0.1', '2130706433', '127.0.0.1.']
  for (const host of hosts) {
    for (const setting of settings) {
      t.equal((await get(`http://${host}:${port}/jwks`, setting)).status, 200, `${host} ${Object.keys(setting)}`)
    }
  }
  await t.rejects(
    get(`http://[::1]:${port}/jwks`, settings[0]),
    { name: 'ProviderFailure', word: 'unreachable' },
    'no server listens there, and the proxy would lead here'
  )
  t.strictSame(proxy.tunnels, [])
  t.equal(provider.requests.length, hosts.length * settings.length)
})

t.test('the environment of the process is not read', async t => {
  const provider = await startHostileProvider()
  const proxy = await startConnectProxy()
  t.teardown(() => Promise.all([provider.close(), proxy.close()]))
  process.env.HTTP_PROXY = proxy.url
  t.teardown(() => {
    delete process.env.HTTP_PROXY
  })
  t.equal((await get(provider.jwksUri)).status, 200)
  t.strictSame(proxy.tunnels, [])
})

t.test('a proxy that refuses, hangs or resets is a failure, and the next session does not wait for it', async t => {
  const provider = await startHostileProvider({ tls: true, hostname: 'idp.test' })
  const proxy = await startConnectProxy()
  t.teardown(() => Promise.all([provider.close(), proxy.close()]))
  const settings = { httpsProxy: proxy.url, ca: providerCertificate }
  const patient = createTransport(settings)
  const impatient = createTransport({ ...settings, deadlineMs: 500 })
  const cases = [['refuse', 'proxy'], ['hang', 'deadline'], ['reset', 'unreachable']] as const
  for (const [mode, word] of cases) {
    proxy.mode = mode
    const session = (mode === 'hang' ? impatient : patient).open()
    const before = proxy.tunnels.length
    await t.rejects(session.send(provider.jwksUri), { name: 'ProviderFailure', word }, mode)
    t.equal(proxy.tunnels.length - before, 1, `${mode}: asked once`)
    session.close()
  }
  proxy.mode = 'tunnel'
  const session = patient.open()
  t.equal((await session.send(provider.jwksUri)).status, 200)
  session.close()
})

t.test('a proxy that is no URL is refused at once', async t => {
  for (const proxy of ['http://', 'ftp://proxy.example', 'xhttp://proxy.example', 'socks5://proxy.example', 'pro xy']) {
    t.throws(() => createTransport({ httpsProxy: proxy }), {
      name: 'TypeError',
      message: 'A proxy must be given as an http or https URL.'
    }, proxy)
  }
  t.ok(createTransport({ httpProxy: '', httpsProxy: 'HTTPS://proxy.example' }))
  t.ok(createTransport({ httpProxy: 'http://user:password@proxy.example:3128', httpsProxy: 'https://proxy.example' }))
})

t.test('a form is posted, and sessions that share connections open fewer', async t => {
  const provider = await startHostileProvider()
  t.teardown(provider.close)
  const ports = new Set<number | undefined>()
  const bodies: string[] = []
  provider.jwks = async (request, response) => {
    ports.add(request.socket.remotePort)
    let body = ''
    for await (const chunk of request) body += chunk
    bodies.push(`${request.method} ${request.headers['content-type']} ${request.headers['x-test']} ${body}`)
    json({})(request, response)
  }
  for (const keepAlive of [true, false]) {
    ports.clear()
    const transport = createTransport({ keepAlive })
    for (const token of ['a', 'b', 'c', 'd']) {
      const session = transport.open()
      t.equal(
        (await session.send(provider.jwksUri, { headers: { 'x-test': '1' }, body: `token=${token}` })).status,
        200
      )
      session.close()
    }
    transport.close()
    t.equal(ports.size < 4, keepAlive)
  }
  t.strictSame(bodies.slice(0, 2), ['a', 'b'].map(token => `POST application/x-www-form-urlencoded 1 token=${token}`))
})

t.test('a session leaves no connection behind, unless they are kept', async t => {
  const sockets: Socket[] = []
  const server = createServer((_request, response) => {
    response.setHeader('keep-alive', 'timeout=600').end('{}')
  }).listen(0, '127.0.0.1')
  // Neither side would end a connection before the test.
  server.keepAliveTimeout = 0
  server.on('connection', socket => sockets.push(socket))
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  const kept = createTransport({ keepAlive: true })
  t.teardown(kept.close)
  for (const transport of [kept, createTransport()]) {
    const session = transport.open()
    t.equal((await session.send(url)).status, 200)
    session.close()
  }
  const [first, second] = sockets
  if (!second!.destroyed) await once(second!, 'close')
  t.equal(first!.destroyed, false)
  kept.close()
  await once(first!, 'close')
})

t.test('a session that is closed cuts its request, and those that share its connections go on', async t => {
  const provider = await startHostileProvider()
  t.teardown(provider.close)
  const transport = createTransport({ keepAlive: true })
  t.teardown(transport.close)
  provider.jwks = hang()
  const cut = transport.open()
  const request = cut.send(provider.jwksUri)
  cut.close()
  await t.rejects(request, { name: 'ProviderFailure', word: 'deadline' })
  provider.jwks = json({ keys: [] })
  const next = transport.open()
  t.equal((await next.send(provider.jwksUri)).status, 200)
  next.close()
})

t.test('a session that is over ends its request, also on connections that are shared', async t => {
  const provider = await startHostileProvider()
  t.teardown(provider.close)
  for (const behaviour of [hang(), drip()]) {
    let cut: Promise<unknown> | undefined
    provider.jwks = (request, response) => {
      cut = new Promise(resolve => response.once('close', resolve))
      behaviour(request, response)
    }
    const transport = createTransport({ keepAlive: true, deadlineMs: 500 })
    await t.rejects(transport.open().send(provider.jwksUri), { name: 'ProviderFailure', word: 'deadline' })
    await cut
    t.pass('the provider sees the connection close')
    transport.close()
  }
})

t.test('Nothing is sent in a session whose signal has aborted before', async t => {
  const provider = await startHostileProvider()
  t.teardown(provider.close)
  let requests = 0
  provider.jwks = (request, response) => {
    requests++
    json({ keys: [] })(request, response)
  }
  const ask = (signal: AbortSignal) =>
    withSession(createTransport(), session => session.send(provider.jwksUri), signal)
  await t.rejects(ask(AbortSignal.abort()), { name: 'ProviderFailure', word: 'deadline' })
  t.equal(requests, 0)
  const { signal } = new AbortController()
  t.equal((await ask(signal)).status, 200)
  t.strictSame(getEventListeners(signal, 'abort'), [], 'a signal that lives on keeps nothing')
})

t.test('Of an answer that may be cut, what is too large is left out, and one that breaks off is a failure', async t => {
  const provider = await startHostileProvider()
  t.teardown(provider.close)
  const ask = () =>
    withSession(createTransport(), session => session.send(provider.jwksUri, { method: 'GET', headers: {}, isCuttable: true }))
  provider.jwks = endless()
  t.hasStrict(await ask(), { status: 200, isCut: true })
  provider.jwks = cutShort()
  await t.rejects(ask(), { name: 'ProviderFailure', word: 'unreachable' })
})
