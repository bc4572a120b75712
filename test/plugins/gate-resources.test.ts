import t, { type Test } from 'tap'
import { startApp } from '../helpers/app.ts'
import { parseChallenges } from '../helpers/challenges.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { startUpstream } from '../helpers/upstream.ts'
import type { Variables } from '../helpers/variables.ts'

const PATH = '/.well-known/oauth-protected-resource'
const RULES = [
  { path: '/a/mcp', mcp: { methods: ['tools/list'] }, scope: 'a:list', audience: 'https://mcp.example/a/mcp' },
  { path: '/a/mcp', mcp: { tools: ['*'] }, scope: 'a:call', audience: 'https://mcp.example/a/mcp' },
  { path: '/b/mcp', scope: 'b', audience: 'https://mcp.example/b/mcp' },
  { path: '/other', scope: 'other', audience: 'https://other.example/b/mcp' },
  { path: '/root', scope: 'root', audience: 'https://root.example' },
  { path: '/plain', scope: 'plain', audience: 'plain' },
  { path: '/same', scope: 'same', audience: 'https://mcp.example/svc' },
  { path: '/*', scope: 'rest' }
]

async function start (t: Test, values: Variables = {}) {
  const issuer = await startIssuer(t)
  const upstream = await startUpstream(t)
  const running = await startApp(t, issuer, {
    GATE: { upstream: upstream.origin, rules: RULES },
    RESOURCE: 'https://mcp.example/svc',
    ...values
  })
  const metadata = async (path: string, host = 'mcp.example'): Promise<Record<string, unknown> | undefined> => {
    const answer = await running.app.inject({ url: path, headers: { host } })
    return answer.statusCode === 200 ? answer.json() : undefined
  }
  /** Where the challenges to a stranger lead. */
  const pointer = async (path: string) => {
    const { statusCode, headers } = await running.app.inject({
      method: 'POST',
      url: path,
      headers: { host: 'mcp.example', 'content-type': 'application/json' },
      payload: '{}'
    })
    t.equal(statusCode, 401, path)
    const [first, ...others] = parseChallenges(String(headers['www-authenticate'])).map(({ parameters }) =>
      parameters.resource_metadata
    )
    for (const other of others) t.equal(other, first)
    return first
  }
  return { ...running, issuer, metadata, pointer }
}

t.test(
  'A rule whose audience is an https URL is a resource of its own: its challenges lead to its metadata, and a ' +
    'token for that resource passes.',
  async t => {
    const { metadata, pointer, issuer, app } = await start(t)
    const rows: Array<[path: string, resource: string, scopes: string[]]> = [
      ['/a/mcp', 'https://mcp.example/a/mcp', ['a:call', 'a:list']],
      ['/b/mcp', 'https://mcp.example/b/mcp', ['b']],
      ['/other', 'https://other.example/b/mcp', ['other']],
      ['/root', 'https://root.example', ['root']],
      ['/same', 'https://mcp.example/svc', ['rest', 'same']],
      ['/elsewhere', 'https://mcp.example/svc', ['rest', 'same']]
    ]
    for (const [path, resource, scopes] of rows) {
      const { origin, pathname } = new URL(resource)
      const location = new URL((await pointer(path))!)
      t.equal(location.href, `${origin}${PATH}${pathname === '/' ? '' : pathname}`, path)
      const found = await metadata(location.pathname, location.host)
      t.strictSame([found!['resource'], found!['scopes_supported'], found!['authorization_servers']], [
        resource,
        scopes,
        [
          issuer.url
        ]
      ], path)
      const token = issuer.token({ aud: resource, scope: scopes.join(' ') })
      const passed = await app.inject({
        method: 'POST',
        url: path,
        headers: { host: 'mcp.example', authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        payload: '{"id":1,"method":"tools/list"}'
      })
      t.equal(passed.statusCode, 200, path)
      const foreign = await app.inject({
        method: 'POST',
        url: path,
        headers: {
          host: 'mcp.example',
          authorization: `Bearer ${issuer.token({ aud: 'https://mcp.example/none', scope: scopes.join(' ') })}`
        }
      })
      t.match(
        foreign.headers['www-authenticate'],
        new RegExp(`invalid_token.*resource_metadata="${location.href}"`),
        'a refused token leads there too'
      )
    }
    t.equal((await metadata(PATH))!['resource'], 'https://mcp.example/svc', 'the root is for the service')
    t.equal(
      (await metadata(`${PATH}/a/mcp`, 'gate.internal'))!['resource'],
      'https://mcp.example/a/mcp',
      'under another name of the host too'
    )
    t.equal(await metadata(`${PATH}/a`), undefined)
    t.equal(await metadata(`${PATH}/none`), undefined)
  }
)

t.test(
  'For an audience that is no https URL, a warning says that nothing leads a client to it, and its challenges ' +
    'lead nowhere.',
  async t => {
    const { pointer, log } = await start(t)
    t.equal(await pointer('/plain'), undefined)
    t.strictSame(
      log.filter(({ event }) => event === 'audience_unreachable').map(({ audience, level }) => [audience, level]),
      [['plain', 40]]
    )
    const none = await start(t, {
      GATE: { upstream: 'http://127.0.0.1:1', rules: RULES.filter(({ audience }) => audience !== 'plain') }
    })
    t.strictSame(none.log.filter(({ event }) => event === 'audience_unreachable'), [])
    const clients = await start(t, { IDP_AUDIENCE_CLAIM: 'azp' })
    t.equal(await clients.pointer('/root'), undefined, 'a client is no resource, whatever its name')
    t.ok(clients.log.some(({ event, audience }) => event === 'audience_unreachable' && audience === 'https://root.example'))
  }
)

t.test('Resources that differ in their query alone have metadata of their own', async t => {
  const audiences = ['https://mcp.example/q?team=a', 'https://mcp.example/q?team=b']
  const { pointer, metadata } = await start(t, {
    GATE: { upstream: 'http://127.0.0.1:1', rules: audiences.map((audience, n) => ({ path: `/${n}`, audience })) }
  })
  for (const [n, audience] of audiences.entries()) {
    const link = await pointer(`/${n}`)
    t.equal(link, `https://mcp.example${PATH}/q?team=${'ab'[n]}`)
    t.equal((await metadata(link!.slice('https://mcp.example'.length)))!['resource'], audience)
  }
  t.equal((await metadata(`${PATH}/q`))!['resource'], audiences[0], 'as before')
})

t.test('With PUBLIC_URL, the link of a challenge leads to metadata with the identifier that it is made of.', async t => {
  const rows: Array<[settings: Variables, link: string, resource: string]> = [
    [
      { PUBLIC_URL: 'https://mcp.example', RESOURCE: 'https://mcp.example/mcp' },
      `https://mcp.example${PATH}/mcp`,
      'https://mcp.example/mcp'
    ],
    [
      { PUBLIC_URL: 'https://mcp.example/svc', RESOURCE: 'https://mcp.example/mcp' },
      `https://mcp.example${PATH}/mcp`,
      'https://mcp.example/mcp'
    ],
    [
      { PUBLIC_URL: 'https://mcp.example', RESOURCE: undefined, IDP_AUDIENCE: 'https://mcp.example/mcp' },
      `https://mcp.example${PATH}/mcp`,
      'https://mcp.example/mcp'
    ],
    [
      { PUBLIC_URL: 'https://mcp.example/svc', RESOURCE: undefined, IDP_AUDIENCE: 'mcp' },
      `https://mcp.example${PATH}/svc`,
      'https://mcp.example/svc'
    ],
    [
      { PUBLIC_URL: 'https://gate.example', RESOURCE: 'https://mcp.example/mcp' },
      `https://gate.example${PATH}`,
      'https://mcp.example/mcp'
    ],
    [{ RESOURCE: 'https://mcp.example/mcp' }, `https://mcp.example${PATH}/mcp`, 'https://mcp.example/mcp']
  ]
  for (const [settings, link, resource] of rows) {
    const { pointer, metadata } = await start(t, settings)
    t.equal(await pointer('/elsewhere'), link)
    t.equal((await metadata(new URL(link).pathname))!['resource'], resource, link)
    t.equal(await pointer('/a/mcp'), `https://mcp.example${PATH}/a/mcp`)
  }
})
