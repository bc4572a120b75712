import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { splitPair } from '../../cli/arguments.ts'
import { readCallOptions } from '../../cli/call-options.ts'
import { judgeClock, timedSession } from '../../cli/compare-clocks.ts'
import type { Exchange } from '../../cli/exchange.ts'
import { fault } from '../../cli/findings.ts'
import { readAtMost } from '../../cli/input.ts'
import { withoutPublicPrefix } from '../../cli/known-settings.ts'
import { explainPreflight } from '../../cli/preflight.ts'
import { lookUpRoute } from '../../cli/route-lookup.ts'
import { createPaint, indent, showAnswer, showJwt, showRequest, terminalLine, terminalText } from '../../cli/show.ts'
import { isAt, readTenants, removeTenant, tenantAt, writeConfiguration, writeTenant, type Tenant } from '../../cli/tenants.ts'
import type { Settings } from '../../lib/settings/settings.ts'
import { root } from '../helpers/documents.ts'
import { encodeJws } from '../helpers/jws.ts'
import { recordedOutputs } from '../helpers/recorded.ts'

const recorded = recordedOutputs(t, import.meta.filename, 1_790_000_000)

/** Records a result, or the message of what was thrown. */
function told<Input extends readonly unknown[]> (run: (...input: Input) => unknown, ...input: Input) {
  const record = recorded(input)
  let result: unknown
  try {
    result = run(...input)
  } catch (error) {
    result = (error as Error).message
  }
  record(typeof result === 'string' ? result : JSON.stringify(result) ?? 'undefined')
}

const painted = (style: string, text: string) => `<${style}>${text}</${style}>`

const tenantOf = (url: string) => ({
  pid: 1,
  url,
  issuer: 'https://tenant.example',
  audience: 'tenant audience',
  clientId: 'tenant client',
  clientSecret: 'tenant secret',
  settings: {}
})
const [FIRST, SECOND] = [tenantOf('http://localhost:8000'), tenantOf('http://localhost:8001/')]

t.test('A finding that cites the docs is plain text on a terminal.', async t => {
  const { says, cure } = fault('`a` is [far](../b.md#c)\u001b[2J', 'see [`d`](e)')
  t.strictSame([says.slice(0, 8), says.includes('\u001b'), cure], ['a is far', false, 'see d'])
})

t.test('What a call does is said by options, else by the environment, else by a tenant.', async () => {
  const options = (values: object, positionals: string[], env: NodeJS.ProcessEnv = {}, tenants?: Tenant[]) => {
    const { addresses = [], ...rest } = readCallOptions({ values, positionals }, env, tenants)
    return { ...rest, addresses: [...addresses] }
  }
  const given = {
    url: 'https://a.example/',
    issuer: 'https://i.example',
    audience: 'audience',
    'client-id': 'client',
    'client-secret': 'secret'
  }
  const env = Object.fromEntries(
    Object.entries(given).map(([name, value]) => [`CALL_${name.toUpperCase().replace('-', '_')}`, `${value}env`])
  )
  const open = { ...given, 'no-token': true }
  told(options, given, ['/b'])
  told(options, given, ['/b'], env, [FIRST])
  told(options, {}, ['delete', '/b'], env, [FIRST])
  told(options, {}, ['/b'], {}, [FIRST, SECOND])
  told(options, {}, ['HTTP://localhost:8001/b'], {}, [FIRST, SECOND])
  told(options, { url: 'http://localhost:8001' }, ['/b'], {}, [FIRST, SECOND])
  told(options, { issuer: 'https://i.example' }, ['/b'], {}, [FIRST])
  told(options, {}, ['/b'], { CALL_TOKEN: 'x', CALL_URL: '' }, [FIRST])
  told(options, { 'no-token': true }, ['/b'], { CALL_TOKEN: 'x' }, [FIRST])
  told(options, { 'no-token': false, dpop: true, full: true, scope: 'a b', param: ['a=b', 'c = d=e'] }, ['/b'], {}, [FIRST])
  told(options, { ...open, json: '{}' }, ['/b'])
  told(options, { ...open, json: '{}', header: ['CONTENT-type: x', 'A:b: c'] }, ['put', '/b'])
  for (const method of ['GET', 'head', 'patch']) told(options, { ...open, json: '1' }, [method, '/b'])
  told(options, { ...open, json: '{' }, ['/b'])
  told(options, { ...open, header: ['HOST: x'] }, ['/b'])
  for (const body of ['form', 'json', 'xml', '']) told(options, { ...open, body }, ['/b'])
  for (
    const address of ['A.example:443:127.0.0.1', 'a:1:[::1]', 'a:1:::1', 'a:1:b', 'a:b:127.0.0.1', ':1:127.0.0.1', 'xa:1:[::1]x']
  ) told(options, { ...open, resolve: [address] }, ['/b'])
  for (
    const words of [
      [],
      ['G3T', '/b'],
      ['3GET', '/b'],
      ['b'],
      ['xhttp://b.example'],
      ['http:/b'],
      ['http://['],
      ['https://b.example/c'],
      ['//b.example']
    ]
  ) told(options, open, words)
  told(options, { ...open, url: undefined }, ['/b'])
  told(options, { ...open, url: undefined }, ['/b'], {}, [])
  for (const url of ['a.example', 'localhost:8000', 'HTTP://localhost:8000']) told(options, { ...open, url }, ['/b'])
  told(options, { ...open, dpop: true }, ['/b'])
  told(options, { ...given, dpop: true }, ['/b'], { CALL_TOKEN: 'x' })
  for (const issuer of [undefined, '', 'i.example', 'xhttps://i.example', 'HTTPS://i.example', 'https://[']) {
    told(options, { ...given, issuer }, ['/b'], {}, [])
    told(options, { ...given, issuer }, ['/b'])
  }
  for (const name of ['client-id', 'client-secret', 'audience', 'url']) told(options, { ...given, [name]: undefined }, ['/b'])
  told(splitPair, '--set', '=b', '=')
  told(splitPair, '--set', 'a=', '=')
  told(splitPair, '--set', ' a = b=c ', '=')
})

t.test('The tenant at a URL is found by its origin, else the first one counts.', async () => {
  told(tenantAt, undefined, 'http://localhost:8000')
  told(tenantAt, [FIRST, SECOND], 'http://localhost:8001/a')
  told(tenantAt, [FIRST, SECOND], 'http://localhost:8002')
  told(tenantAt, [FIRST, SECOND])
  for (const url of [undefined, 'localhost', 'https://localhost:8000', 'http://localhost:8000/x']) told(isAt, FIRST, url)
})

t.test('Requests, answers and tokens are shown in colours, and steer no terminal.', async () => {
  const asked = (values: Record<string, string>, full: boolean) =>
    showRequest(painted, { method: 'GET', url: 'http://a/', requestHeaders: values } as unknown as Exchange, full)
  for (const full of [false, true]) {
    for (const length of [72, 73]) told(asked, { A: 'a b '.repeat(19).slice(0, length), B: 'BASIC eA==', C: 'xbasic y' }, full)
  }
  const answered = (status: number, body: string, headers: Record<string, string> = {}) =>
    showAnswer(painted, { status, statusText: 'S\u001b', headers: new Headers(headers), body } as Exchange)
  for (const status of [199, 200, 299, 300]) told(answered, status, '')
  told(answered, 200, '{"a":["\u202e"]}', {
    'www-authenticate': '1',
    'dpop-nonce': '2',
    'retry-after': '3',
    'content-type': '4',
    'cache-control': '5',
    location: '6',
    'x-request-id': '7',
    'holdfast-revocation': '8',
    date: '9',
    server: '10'
  })
  told(answered, 200, 'a\r\nb\tc\rd')
  const decoded = (claims: object) =>
    showJwt(painted, encodeJws({ alg: 'x' }, claims, () => Buffer.from('')), 2_000_000)
  for (const by of [0, 1, 119, 120, 121, 7199, 7200, 9001]) {
    told(decoded, { iat: 2_000_000 - by, exp: 2_000_000 + by, nbf: 2_000_000, aud: 3, sub: { iat: 1 } })
  }
  for (const text of ['a', 'a.b', 'e30', 'e30.', '.e30', 'e30.e30', 'e30.e30.x.y', 'e30.W10']) told(showJwt, painted, text, 0)
  told(indent, 'a\n\n b\n')
  for (const show of [terminalText, terminalLine]) told(show, 'a\r\n\n b\r\t\u0000\u007f\u0085\u2028\u202e\u2066\u2069\u2070c')
  const paint = (isTTY: boolean | undefined, env: NodeJS.ProcessEnv) =>
    createPaint({ write () {}, ...isTTY !== undefined && { isTTY } }, env)('red', 'a')
  told(paint, undefined, {})
  told(paint, false, {})
  for (const env of [{}, { TERM: 'dumb' }, { TERM: 'xterm' }, { NO_COLOR: '' }, { NO_COLOR: '0' }]) told(paint, true, env)
})

t.test('A preflight is explained by what answers it.', async () => {
  const refused = { verdict: 'refused', notChecked: ['a'], steps: [{ name: 'a', compared: [['b', 'c']] }], refusal: {} }
  const accepted = { ...refused, verdict: 'accepted', refusal: undefined }
  const preflight = (
    lines: Record<string, string>,
    settings: object,
    method = 'OPTIONS',
    explanation: object = refused
  ) =>
    explainPreflight(explanation as never, {
      method,
      target: '/a?b?c',
      headers: Object.entries(lines),
      encrypted: false,
      remoteAddress: undefined
    }, { server: {}, ...settings } as unknown as Settings)
  const asking = { ORIGIN: 'https://A.example', 'Access-Control-Request-Method': 'GET' }
  told(preflight, asking, {})
  told(preflight, asking, {}, 'GET')
  told(preflight, { origin: 'https://a.example' }, { server: { corsOrigins: ['*'] } })
  told(preflight, { 'access-control-request-method': 'GET' }, { server: { corsOrigins: ['*'] } })
  const page = 'https://a.EXAMPLE'
  for (const corsOrigins of [['*'], [page], ['https://b.example', page], ['https://b.example'], []]) {
    for (const gate of [undefined, {}, { upstream: 'http://b' }]) told(preflight, asking, { gate, server: { corsOrigins } })
  }
  told(preflight, asking, { gate: {} }, 'OPTIONS', accepted)
  told(preflight, asking, {}, 'OPTIONS', accepted)
})

t.test('Clocks are compared by dates that no cache has made old.', async t => {
  const offsets = async (date: string | undefined, age: string | undefined, tookMs: number) => {
    const found: number[] = []
    let ms = Date.UTC(2026, 8, 21, 14, 13, 20)
    const session = timedSession({
      async send () {
        ms += tookMs
        return { headers: { ...date !== undefined && { date }, ...age !== undefined && { age } } } as never
      },
      async close () {}
    } as never, found, () => ms)
    await session.send('http://a' as never)
    return found
  }
  const record = recorded('offsets')
  const lines: string[] = []
  for (const second of ['08', '18', '19', '20', '21', '22', '32']) {
    for (const [age, tookMs] of [[undefined, 0], ['0', 1000], ['1', 0], ['10', 2000]] as const) {
      const found = await offsets(`Mon, 21 Sep 2026 14:13:${second} GMT`, age, tookMs)
      lines.push(`:${second}, ${age} s old, took ${tookMs} ms: ${found.join()}`)
    }
  }
  record(lines.join('\n'))
  t.strictSame([await offsets('soon', undefined, 0), await offsets(undefined, undefined, 0)], [[], []])
  for (const found of [[], [0], [0.99], [1], [-1], [5], [5.01], [-5.01], [-60, 3, -2], [2, 60, -3]]) {
    told(judgeClock, found, 5)
  }
})

t.test('The prefix of the public address is taken away only from requests to it.', async () => {
  const without = (target: string, host: string | undefined, publicUrl?: string) =>
    withoutPublicPrefix(target, host, { server: { publicUrl } } as Settings)
  told(without, '/a/b', 'a.example')
  for (const url of ['https://a.example/a', 'https://A.example/a/', 'https://a.example', 'https://b.example/a']) {
    for (const target of ['/a/b?c', '/a', '/ab', '/b/a/']) told(without, target, 'A.Example', url)
    told(without, '/a/b', undefined, url)
  }
})

t.test('The command finds its tool, or says which there are.', async () => {
  for (const words of ['', '-h', '--help', 'chek', 'constructor', 'observed --json', 'observed a b', 'explain -', 'check x']) {
    const record = recorded(words)
    const { status, stdout } = spawnSync(
      process.execPath,
      ['--import', './cli/strip-types.js', 'cli/main.ts', ...words.split(' ').filter(Boolean)],
      { input: 'GET /a b', encoding: 'utf8', cwd: root }
    )
    record(`${stdout}code ${status}`)
  }
})

t.test('The command ends quietly if nobody reads on.', t => {
  const line = '"$0" --import ./cli/strip-types.js cli/main.ts --help | true'
  t.equal(spawnSync('sh', ['-c', line, process.execPath], { encoding: 'utf8', cwd: root }).stderr, '')
  t.end()
})

t.test('A route is asked what it needs, unless its file needs what only the service has.', async t => {
  const route = "export default async app => { app.get('/a', { onRequest: app.requireScope('b') }, () => {}) }"
  const dir = t.testdir({ a: { 'a.js': route }, b: { 'a.js': route, 'b.js': 'export default async app => { app.own() }' } })
  const ask = (method: string, target: string, folder = 'a') =>
    lookUpRoute(method, target, {} as Settings, join(dir, folder))
  t.hasStrict(await ask('GET', '/api/a'), { kind: 'guarded', requirements: [{ scope: ['b'] }] })
  for (const [method, target] of [['GET', '/api/b'], ['FOO', '/api/a'], ['G T', '/api/a'], ['GET', 'http://[']] as const) {
    t.strictSame(await ask(method, target), { kind: 'none' })
  }
  t.strictSame(await ask('GET', '/api/a', 'b'), { kind: 'unknown', fault: 'app.own is not a function' })
})

t.test('A stream is read up to its bound.', async t => {
  const stream = async function * () {
    yield Buffer.from('ab')
    yield Buffer.from('cd')
  }
  t.strictSame(await Promise.all([3, 4, 5].map(bound => readAtMost(stream(), bound))), [undefined, 'abcd', 'abcd'])
})

t.test('A tenant of this machine is known for as long as its process runs.', t => {
  const ended = spawnSync(process.execPath, ['-e', '']).pid
  const pids = [process.pid, ended]
  for (const pid of pids) writeTenant({ ...tenantOf('http://localhost:1'), pid })
  t.teardown(() => removeTenant(process.pid))
  const known = () => readTenants().map(({ pid }) => pid).filter(pid => pids.includes(pid))
  t.strictSame(known(), [process.pid])
  const configuration = writeConfiguration({})
  t.ok(existsSync(configuration))
  removeTenant(process.pid)
  t.strictSame(known(), [])
  t.notOk(existsSync(configuration), 'its configuration goes with it')
  t.end()
})
