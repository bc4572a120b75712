import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { createServer, request } from 'node:http'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { calculateThumbprint, generateKeyPair, type KeyPair } from 'dpop'
import type { FastifyInstance, FastifyPluginAsync } from 'fastify'
import t, { type Test } from 'tap'
import ts from 'typescript'
import { parse as parseYaml } from 'yaml'
import { containing } from '../helpers/containing.ts'
import { call as runCall } from '../../cli/call.ts'
import { startProvider } from '../../dev/provider/provider.ts'
import { PERMISSIONS } from '../../dev/provider/users.ts'
import { REFUSALS } from '../../lib/refusal.ts'
import { collectSettings } from '../../lib/settings/sources.ts'
import { validateSettings } from '../../lib/settings/validation.ts'
import { variables as SETTINGS } from '../../lib/settings/specs.ts'
import holdfast, { type FileOptions } from '../../packages/holdfast/index.ts'
import { createTestIssuer, type TestIssuer } from '../../packages/holdfast/testing.ts'
import { createApp, startApp } from '../helpers/app.ts'
import { call, callBearer, callDpop, expectRefusal } from '../helpers/call.ts'
import {
  findDeadLinks,
  manuals,
  nameOfSnippet as nameOf,
  pages,
  parseCommand,
  readBlocks,
  readCodeSpans,
  readProse,
  root,
  type Block,
  type Command,
  textOf
} from '../helpers/documents.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { startIssuer, type Issuer } from '../helpers/issuer.ts'
import { processSurroundings } from '../../server/surroundings.ts'
import { listen } from '../helpers/listen.ts'
import { shownBy } from '../helpers/shown.ts'

/**
 * Commands that another test runs: it must hold the text beside them. `npm run call` is run below. A command that is in
 * neither place fails here: have a test run it and say which, or take it out of the manual.
 */
const RUN_ELSEWHERE: Record<string, readonly [file: string, evidence: string]> = {
  // Docker is not available: each word is compared.
  'docker build --build-arg COMMIT=$(git rev-parse HEAD) --tag holdfast .': [
    'test/deploy/dockerfile.test.ts',
    'docker build'
  ],
  'docker run --name holdfast --detach --restart unless-stopped --stop-timeout 15 --read-only --cap-drop ALL --security-opt no-new-privileges --pids-limit 64 --memory 1g --ulimit nofile=16384 --ulimit core=0 --env-file .env --publish 127.0.0.1:8000:8000 holdfast':
    ['test/deploy/dockerfile.test.ts', 'docker run'],
  // cit is ci, then test.
  'npm ci': ['.ci/run', 'npm cit'],
  'npm cit': ['.ci/run', 'npm cit'],
  'npm run check': ['test/programs/dev.test.ts', "['cli/main.ts', ['check']"],
  'npm run explain -- captured.txt': ['test/programs/dev.test.ts', "['cli/main.ts', ['explain', '--', 'captured.txt']"],
  'npm run dev': ['test/system/first-hour.test.ts', "'npm run dev'"],
  'npm test': ['test/system/first-hour.test.ts', 'npm test'],
  'npx tap test/own/drafts.test.ts': ['test/system/first-hour.test.ts', "walk(t, 'docs/guide/start.md'"],
  'git rm routes/api/admin.ts routes/api/profile.ts routes/api/protected.ts routes/api/users.ts': [
    'test/system/first-hour.test.ts',
    "walk(t, 'docs/guide/your-own.md'"
  ],
  'git commit -m Remove sample routes': ['test/system/first-hour.test.ts', "walk(t, 'docs/guide/your-own.md'"],
  'git remote rename origin holdfast': ['test/system/first-hour.test.ts', "walk(t, 'docs/guide/your-own.md'"],
  'git fetch holdfast': ['test/system/first-hour.test.ts', "walk(t, 'docs/guide/your-own.md'"],
  'git merge holdfast/main': ['test/system/first-hour.test.ts', "walk(t, 'docs/guide/your-own.md'"],
  'git rm routes/api/users.ts': ['test/system/first-hour.test.ts', "walk(t, 'docs/guide/your-own.md'"],
  'git commit --no-edit': ['test/system/first-hour.test.ts', "walk(t, 'docs/guide/your-own.md'"],
  'npm run package': ['test/system/package.test.ts', 'linesOf('],
  'npx -y -p ./create-holdfast-0.1.0.tgz create-holdfast ../my-api --packed .': [
    'test/matrix/starter.test.ts',
    'const PACKED ='
  ],
  'npm create holdfast@latest my-api': ['test/matrix/starter.test.ts', 'const PUBLISHED ='],
  'cd ../my-api': ['test/matrix/starter.test.ts', 'join(folder, name)'],
  'cd my-api': ['test/matrix/starter.test.ts', 'join(folder, name)'],
  'npm install': ['test/matrix/starter.test.ts', 'lines.slice('],
  'npm pkg set type=module': ['test/system/package.test.ts', "linesOf('docs/guide/plugin.md')"],
  'npm i ../holdfast/holdfast-0.1.0.tgz fastify': ['test/system/package.test.ts', "linesOf('docs/guide/plugin.md')"],
  'node --test orders.test.ts': ['test/system/consumers.test.ts', 'TEST_COMMANDS'],
  'npx -y tsx --test orders.test.ts': ['test/system/consumers.test.ts', 'TEST_COMMANDS'],
  'npx -y -p ./holdfast-cli-0.1.0.tgz holdfast start': [
    'test/system/package.test.ts',
    "linesOf('packages/holdfast-cli/README.md')"
  ],
  'npx -y -p ./holdfast-cli-0.1.0.tgz holdfast gate --upstream http://127.0.0.1:3000': [
    'test/system/package.test.ts',
    "linesOf('docs/guide/gate.md')"
  ],
  // What the release makes of these lines.
  'npm i holdfast fastify': ['test/system/package.test.ts', "linesOf('docs/guide/plugin.md')"],
  'npx -y holdfast-cli start': ['test/system/package.test.ts', "linesOf('packages/holdfast-cli/README.md')"],
  'npx -y holdfast-cli gate --upstream http://127.0.0.1:3000': [
    'test/system/package.test.ts',
    "linesOf('docs/guide/gate.md')"
  ],
  // The part of docs/guide/gate.md that leads to a guarded application.
  'python3 app.py': ['test/system/guarded-application.test.ts', 'here(startApplication)'],
  'npm run gate -- --upstream http://127.0.0.1:3000 --port 8100': [
    'test/system/guarded-application.test.ts',
    'here(startGate)'
  ],
  'cd examples/mcp': ['test/programs/mcp-gated.test.ts', 'commandOf('],
  'npm run gated': ['test/programs/mcp-gated.test.ts', "commandOf('gated')"],
  'npm run gated-client': ['test/programs/mcp-gated.test.ts', "commandOf('gated-client')"],
  'npm run gate -- --explain GET /orders/7': ['test/system/guarded-application.test.ts', 'here(explain)'],
  'npm run gate -- --explain POST /mcp --mcp tools/call delete_order': [
    'test/cli/gate.test.ts',
    "explain('POST', '/mcp', '--mcp', 'tools/call', 'delete_order')"
  ],
  'npm run gate -- --port 8100': ['test/system/guarded-application.test.ts', 'here(startAgain)'],
  'npm start': ['test/start.test.ts', "run('npm', ['start']"]
}

/**
 * Blocks in the language of other programs, by page and first line. They are parsed if they are YAML, and no more: the
 * programs are not available.
 */
const OF_OTHER_PROGRAMS: Record<string, string> = {
  'docs/reference/behind-a-proxy.md www.example.com {': 'Caddy',
  'docs/reference/behind-a-proxy.md http:': 'Traefik',
  'docs/reference/behind-a-proxy.md # in the HTTP connection manager': 'Envoy',
  'docs/reference/behind-a-proxy.md apiVersion: networking.k8s.io/v1': 'Kubernetes'
}

/**
 * The application of docs/guide/gate.md, which test/system/guarded-application.test.ts runs. Of docs/guide/clients.md
 * clients.test.ts runs the first diff, and test/system/clients.test.ts the Python. Nothing runs the other diff, Go, and
 * two lines of docs/reference/fapi.md.
 */
const OF_OTHER_LANGUAGES = ['python', 'js', 'diff', 'go']

/** Variables that are no settings of the service: those of the tools and of Node. */
const OTHER_VARIABLES = new Set([
  'CONFIG_FILE',
  'CALL_CLIENT_SECRET',
  'DEV_CLIENT_ID',
  'DEV_CLIENT_SECRET',
  'DEV_REDIRECT_URIS',
  'NODE_EXTRA_CA_CERTS',
  'NODE_TLS_REJECT_UNAUTHORIZED',
  'UV_THREADPOOL_SIZE'
])

const blocks = manuals.flatMap(readBlocks)
const scriptsOf = (folder: string): Record<string, string> =>
  JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8')).scripts
const isOurs = (block: Block) => !(`${block.file} ${block.text.split('\n', 1)[0]}` in OF_OTHER_PROGRAMS)
const withLanguage = (...languages: string[]) => blocks.filter(({ language }) => languages.includes(language))

/** What a shell would do, line by line, without the remarks at their ends. */
const shellLines = withLanguage('sh').flatMap(({ place, text }) =>
  text.replaceAll('\\\n', ' ').split('\n').filter(line => line.trim() !== '' && !line.startsWith('#')).map(line => {
    const [code = '', remark = ''] = line.split(/\s+# /, 2)
    return { place: `${place} ${code}`, remark, commands: code.split('&&').map(parseCommand) }
  })
)

async function expectSettings (t: Test, { variables }: Command, place: string) {
  const names = [...SETTINGS.keys()]
  t.strictSame(
    Object.keys(variables).filter(name =>
      !names.includes(name) && !OTHER_VARIABLES.has(name) && !name.startsWith('OTEL_')
    ),
    [],
    `${place}: every variable is known`
  )
  const found = collectSettings({
    environment: {
      IDP_DOMAIN: 'tenant.example',
      IDP_AUDIENCE: 'https://api.example',
      IDP_CLIENT_ID: 'api',
      IDP_CLIENT_SECRET: 'secret',
      ...variables,
      CONFIG_FILE: ''
    },
    readFile: () => undefined
  })
  await t.resolves(validateSettings(found, processSurroundings), `${place}: the settings are accepted`)
}

t.test('Every fenced block is of a kind that is tested.', async t => {
  // test/matrix/frameworks.test.ts runs each `js`.
  const known = ['ts', 'js', 'sh', 'yaml', 'json', 'nginx', 'http', 'mermaid', 'text', '', ...OF_OTHER_LANGUAGES]
  for (const { place, language } of blocks.filter(isOurs)) t.ok(known.includes(language), place)
  for (const key of Object.keys(OF_OTHER_PROGRAMS)) {
    t.ok(blocks.some(({ file, text }) => `${file} ${text.split('\n', 1)[0]}` === key), `${key} is still there`)
  }
  for (const { place, text } of withLanguage('http').filter(({ file }) => file !== 'docs/guide/dpop.md')) {
    t.fail(`${place}: ${text.split('\n', 1)[0]} is not looked at by examples.test.ts`)
  }
  for (const { place, text } of withLanguage('text')) {
    t.notMatch(text, /^(?:\$ |npm |node )/m, `${place}: a command is marked as sh`)
  }
})

t.test('Every relative link leads to an existing file and heading.', async t => {
  for (const page of pages) t.strictSame(findDeadLinks(page), [], page)
})

t.test('Every named npm script and test file exists.', async t => {
  for (const page of pages) {
    const text = readProse(page) + readBlocks(page).map(block => block.text).join('\n')
    const named = [...text.matchAll(/(?:\bcd (\S+) && )?\bnpm (?:run ([\w:-]+)|(start|test)\b)/g)].map(
      ([, folder = '', run, own]) => [folder, run ?? own!] as const
    )
    t.strictSame(named.filter(([folder, name]) => !(name in scriptsOf(folder))), [], `${page}: scripts`)
    const files = [...text.matchAll(/\bnpx tap [^`\n]*?(test\/\S+\.ts)/g)].map(([, file]) => file!)
    t.strictSame(
      files.filter(file => !file.startsWith('test/own/') && !existsSync(join(root, file))),
      [],
      `${page}: tests`
    )
  }
})

t.test('Every shown value of a setting is accepted.', async t => {
  for (const manual of manuals) {
    const spans = readCodeSpans(manual).filter(span => [...SETTINGS.keys()].some(name => span.startsWith(`${name}=`)))
    for (const span of new Set(spans)) await expectSettings(t, parseCommand(span), `${manual} ${span}`)
  }
  const lists = withLanguage('sh', '').filter(isOurs).filter(({ text }) => parseCommand(text).words.length === 0)
  for (const { place, text } of lists) await expectSettings(t, parseCommand(text), place)
  for (const { place, commands } of shellLines) for (const command of commands) await expectSettings(t, command, place)
  for (const { place } of withLanguage('').filter(isOurs).filter(block => !lists.includes(block))) {
    t.fail(`${place}: neither settings nor of another program; mark output as text`)
  }
})

t.test('Every shown configuration file is accepted, and other YAML and JSON is valid.', async t => {
  for (const { place, text } of withLanguage('yaml', 'json')) {
    const content = t.doesNotThrow(() => parseYaml(text), place) && parseYaml(text) as Record<string, unknown>
    if (!content) continue
    if (text.startsWith('# config.yaml') || ['idp', 'dpop', 'server'].some(section => section in content)) {
      const found = collectSettings({
        environment: {},
        readFile: path => path === 'config.yaml' ? text : undefined
      })
      await t.resolves(validateSettings(found, processSurroundings), `${place}: the configuration is accepted`)
    }
    if (typeof content.reason === 'string') t.ok(content.reason in REFUSALS, `${place}: ${content.reason} is a reason`)
  }
  for (const block of withLanguage('yaml').filter(isOurs)) {
    t.match(block.text, /^# config\.yaml\n/, `${block.place}: a configuration says so in its first line`)
  }
})

t.test('Every piece of nginx configuration is in a file of deploy/nginx.', async t => {
  const files = readdirSync(join(root, 'deploy/nginx'), { recursive: true, encoding: 'utf8' }).filter(name =>
    name.endsWith('.conf')
  )
  const configurations = files.map(name => readFileSync(join(root, 'deploy/nginx', name), 'utf8'))
  for (const { place, text } of withLanguage('nginx')) {
    t.ok(configurations.some(configuration => configuration.includes(text)), place)
  }
})

/** Runs a snippet as the module that it is, with some of its text replaced. */
async function load<Module> (
  t: Test,
  { text }: Block,
  replacements: Record<string, string> = {}
) {
  let code = text
  for (const [from, to] of Object.entries(replacements)) {
    if (!code.includes(from)) throw new Error(`the snippet no longer holds ${from}`)
    code = code.replaceAll(from, to)
  }
  const compilerOptions = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2023, verbatimModuleSyntax: true }
  const { outputText } = ts.transpileModule(
    code.replaceAll("'./", `'${pathToFileURL(root)}/`).replaceAll(
      "'holdfast'",
      `'${pathToFileURL(join(root, 'packages/holdfast/index.ts'))}'`
    ),
    { compilerOptions }
  )
  return await import(pathToFileURL(join(t.testdir({ 'snippet.mjs': outputText }), 'snippet.mjs')).href) as Module
}

const routeSnippets = withLanguage('ts').filter(block =>
  nameOf(block).startsWith('routes/') && block.file !== 'docs/reference/requirements.md'
)
// A test that is shown is run by test/system/first-hour.test.ts, in the clone that it is written for.
const ownSnippets = withLanguage('ts').filter(block =>
  !routeSnippets.includes(block) && !nameOf(block).startsWith('test/own/')
)
const loadRoute = async (t: Test, block: Block) =>
  (await load<{ default: FastifyPluginAsync }>(t, block)).default

t.test('Every shown route answers with its scope, and refuses without.', async t => {
  for (const block of routeSnippets) {
    await t.test(block.place, async t => {
      const [, path, scope] = /: GET (\/api\/\S+), for tokens with (\S+)\n/.exec(block.text) ?? []
      if (path === undefined || scope === undefined) return t.fail('the first line says method, path and scope')
      t.equal(nameOf(block), `routes${path}.ts`, 'the file is named for the path')
      const issuer = await startIssuer(t)
      const route = await loadRoute(t, block)
      const running = await startApp(t, issuer, {}, app => {
        app.register(route, { prefix: '/api' })
      })
      const client = await createDpopClient()
      const bound = issuer.token({ scope, cnf: client.cnf })

      t.equal((await callBearer(running, issuer.token({ scope }), path)).status, 200)
      t.equal(
        (await callDpop(running, bound, client.proof({ token: bound, url: running.url + path }), path)).status,
        200
      )
      expectRefusal(
        t,
        await callBearer(running, issuer.token({ scope: `${scope}:else` }), path),
        'scope_missing',
        'Bearer'
      )
      expectRefusal(t, await callBearer(running, bound, path), 'token_bound', 'Bearer')
      expectRefusal(t, await call(running, { path }), 'credentials_missing')
    })
  }
})

/** Starts the service with the route of a snippet, and requests it with tokens of these claims, or without one. */
async function startRoute (t: Test, block: Block) {
  const issuer = await startIssuer(t)
  const route = await loadRoute(t, block)
  const { app } = await startApp(t, issuer, {}, app => {
    app.register(route, { prefix: '/api' })
  })
  return (method: 'GET' | 'POST', url: string, claims?: Record<string, unknown>) =>
    app.inject({ method, url, headers: claims && { authorization: `Bearer ${issuer.token(claims)}` } })
}

/** How each snippet that requires more than scopes, or is no route, is run. */
const RUNS: Record<string, (t: Test, block: Block) => Promise<void>> = {
  async 'routes/api/payments.ts' (t, block) {
    const ask = await startRoute(t, block)
    const met = { scope: 'pay', tenant: 'blue', acr: 'urn:example:mfa', auth_time: Math.floor(Date.now() / 1000) }
    t.equal((await ask('POST', '/api/payments', met)).statusCode, 200)
    for (const lack of [{ scope: '' }, { tenant: 'red' }]) {
      t.equal((await ask('POST', '/api/payments', { ...met, ...lack })).statusCode, 403)
    }
    t.equal((await ask('POST', '/api/payments', { ...met, auth_time: 1 })).statusCode, 401)
    const { headers } = await ask('POST', '/api/payments', { ...met, acr: '0' })
    t.ok(
      withLanguage('text').some(({ file, text }) =>
        file === block.file && text === `WWW-Authenticate: ${headers['www-authenticate']}\n`
      ),
      'the challenge that is shown'
    )
  },
  async 'routes/api/cellar.ts' (t, block) {
    const ask = await startRoute(t, block)
    const met = { tenant: 'blue', plan: 'silver', age: 18 }
    t.equal((await ask('GET', '/api/cellar', met)).statusCode, 200)
    for (const lack of [{ tenant: 'red' }, { plan: 'tin' }, { age: 17 }]) {
      t.equal((await ask('GET', '/api/cellar', { ...met, ...lack })).statusCode, 403)
    }
  },
  async 'routes/api/greeting.ts' (t, block) {
    const ask = await startRoute(t, block)
    t.equal((await ask('GET', '/api/greeting')).json().message, 'Welcome.')
    t.equal((await ask('GET', '/api/greeting', {})).json().message, 'Welcome back, user-1.')
    t.equal((await ask('GET', '/api/greeting', { exp: 1 })).statusCode, 401)
  },
  async 'client.ts' (t, block) {
    const { call } = await load<{ call: (keys: KeyPair, token: string, url: string) => Promise<Response> }>(t, block)
    const keys = await generateKeyPair('ES256')
    const issuer = await startIssuer(t)
    const token = issuer.token({ cnf: { jkt: await calculateThumbprint(keys.publicKey) } })
    for (const [DPOP_NONCE, reasons] of [['off', []], ['required', ['nonce_missing']]] as const) {
      const running = await startApp(t, issuer, { DPOP_NONCE })
      t.equal((await call(keys, token, `${running.url}/api/private?page=2`)).status, 200)
      t.strictSame(running.reasons(), reasons)
    }
  },
  async 'server.ts' (t, block) {
    const issuer = await startIssuer(t)
    const { app } = await load<{ app: FastifyInstance }>(t, block, {
      "domain: 'tenant.example'": `issuer: '${issuer.url}'`
    })
    t.teardown(() => app.close())
    const client = await createDpopClient()
    const token = (claims: object) => issuer.token({ aud: 'https://api.example', ...claims })
    const get = async (headers: Record<string, string>): Promise<unknown> => {
      const answer = await app.inject({ url: '/orders', headers })
      return [answer.statusCode, answer.statusCode === 200 ? answer.json() : String(answer.headers['www-authenticate'])]
    }
    const bound = token({ scope: 'read:orders', cnf: client.cnf })
    t.hasStrict(await get({ authorization: `Bearer ${token({ scope: 'read:orders' })}` }), [200, { of: 'user-1' }])
    t.hasStrict(
      await get({
        authorization: `DPoP ${bound}`,
        dpop: client.proof({ token: bound, url: 'https://api.example/orders' })
      }),
      [200, { of: 'user-1' }]
    )
    t.match(await get({ authorization: `Bearer ${token({ scope: 'read' })}` }), [403, /insufficient_scope/])
    t.match(await get({ authorization: `Bearer ${bound}` }), [401, /invalid_token/])
    t.match(await get({}), [401, /^Bearer scope="read:orders", DPoP scope="read:orders", algs=/])
  },
  async 'tenants.ts' (t, block) {
    const issuer = await startIssuer(t)
    const { app } = await load<{ app: FastifyInstance }>(t, block, {
      "[['https://tenant.example/', { issuer: 'https://tenant.example/'": `[['${issuer.url}', { issuer: '${issuer.url}'`
    })
    t.teardown(() => app.close())
    app.get('/', { onRequest: app.authenticate() }, ({ auth }) => auth?.issuer)
    const get = (token: string) => app.inject({ url: '/', headers: { authorization: `Bearer ${token}` } })
    t.equal((await get(issuer.token({ aud: 'https://api.example' }))).body, issuer.url)
    t.match(
      (await get(issuer.token({ aud: 'https://api.example', iss: 'https://other.example/' })))
        .headers['www-authenticate'],
      /issued by another issuer/
    )
  },
  async 'scopes.ts' (t, block) {
    const { addRoutes } = await load<{ addRoutes: (app: FastifyInstance) => void }>(t, block)
    const app = createApp(t)
    await app.register(holdfast, { idp: { domain: 'tenant.example', audience: 'https://api.example' } })
    addRoutes(app)
    t.strictSame(await Promise.all(['/status', '/me', '/admin'].map(async url => (await app.inject(url)).statusCode)), [
      200,
      401,
      401
    ])
  },
  async 'dev.ts' (t, block) {
    const { app, command } = await load<{ app: FastifyInstance, command: string }>(t, block, {
      "'holdfast/testing'": `'${pathToFileURL(join(root, 'packages/holdfast/testing.ts'))}'`,
      'port: 3000': 'port: 0',
      'console.log(command)': ''
    })
    t.teardown(() => app.close())
    const [, authorization, url] = /^curl -H 'Authorization: (Bearer \S+)' (\S+)$/.exec(command)!
    t.strictSame(await (await fetch(url!, { headers: { authorization: authorization! } })).json(), { of: 'ann' })
    t.equal((await fetch(url!)).status, 401)
  },
  async 'errors.ts' (t, block) {
    const { answerErrors } = await load<{ answerErrors: (app: FastifyInstance) => void }>(t, block)
    const app = createApp(t)
    await app.register(holdfast, { idp: { domain: 'tenant.example', audience: 'https://api.example' } })
    answerErrors(app)
    app.get('/orders', { onRequest: app.authenticate() }, () => 'ok')
    const answer = await app.inject('/orders')
    t.hasStrict(answer.json(), { reason: 'credentials_missing' })
    t.match(answer.headers['www-authenticate'], /^Bearer/)
  },
  async 'joined.ts' (t, block) {
    const { forTests } = await load<{ forTests: (mine: FileOptions, issuer: TestIssuer) => FileOptions }>(
      t,
    block
    )
    const mine: FileOptions = { idp: { domain: 'tenant.example', dpopMode: 'REQUIRED' } }
    const issuer = await createTestIssuer({ audience: 'https://api.example' })
    const ask = async (options: FileOptions) => {
      const app = createApp(t)
      await app.register(holdfast, options)
      app.get('/orders', { onRequest: app.authenticate() }, () => 'ok')
      const authorization = `Bearer ${await issuer.token({ aud: 'https://api.example' })}`
      return (await app.inject({ url: '/orders', headers: { authorization } })).statusCode
    }
    t.equal(await ask(forTests(mine, issuer)), 401, 'DPoP is still required')
    t.equal(await ask({ ...mine, ...issuer.options }), 200, 'and is not after a plain spread')
  },
  async 'orders.test.ts' (t, { file }) {
    t.match(
      textOf('test/system/consumers.test.ts'),
      containing(file),
      'a consumer of the package runs it as it is printed'
    )
  },
  async 'issuers.test.ts' (t, { file }) {
    t.match(
      textOf('test/system/consumers.test.ts'),
      containing(file),
      'a consumer of the package runs it as it is printed'
    )
  },
  async 'revocation.test.ts' (t, { file }) {
    t.match(
      textOf('test/system/consumers.test.ts'),
      containing(file),
      'a consumer of the package runs it as it is printed'
    )
  },
  async 'claims.ts' (t, block) {
    const { teamOf } = await load<{ teamOf: (request: object) => string }>(t, block)
    t.equal(teamOf({ user: { 'https://api.example/team': 'red' } }), 'red')
    t.equal(teamOf({ user: {} }), 'none')
  }
}

t.test('Every other TypeScript snippet does what its page says.', async t => {
  t.strictSame(ownSnippets.map(nameOf).filter(name => !(name in RUNS)), [], 'none is left out')
  for (const block of ownSnippets) await t.test(block.place, t => RUNS[nameOf(block)]!(t, block))
})

t.test('Every command is run, here or by the test that is named.', async t => {
  for (const { place, commands } of shellLines) {
    for (const { words } of commands) {
      const line = words.join(' ')
      if (line === '' || line.startsWith('npm run call -- ')) continue
      const [file = '', evidence = ''] = RUN_ELSEWHERE[line] ?? []
      t.ok(
        file !== '' && textOf(file).includes(evidence),
        `${place}: ${file || 'no test'} runs it`
      )
    }
  }
})

const audience = 'https://holdfast.example/api'

/**
 * Does with a request what deploy/nginx/prefix.conf does, on a port of loopback. nginx itself is in
 * test/system/nginx.test.ts.
 */
async function startPrefixProxy (t: Test, target: string) {
  const server = createServer((incoming, outgoing) => {
    const headers = {
      ...incoming.headers,
      'x-forwarded-host': incoming.headers.host,
      'x-forwarded-proto': 'http',
      'x-forwarded-prefix': '/svc'
    }
    request(target + incoming.url!.slice('/svc'.length), { headers, agent: false }, answer => {
      outgoing.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(outgoing)
    }).end()
  })
  const port = await listen(t, server)
  return `http://localhost:${port}/svc`
}

t.test('The routes that a reader adds first ask for what the local provider grants.', async t => {
  const granted: readonly string[] = PERMISSIONS
  for (const page of ['README.md', 'docs/guide/start.md']) {
    const blocks = routeSnippets.filter(({ file }) => file === page)
    t.ok(blocks.length > 0, page)
    for (const { text } of blocks) {
      for (const [, scope = ''] of text.matchAll(/requireScope\('([^']+)'\)/g)) t.ok(granted.includes(scope), scope)
    }
  }
})

t.test('Every shown call ends as its remark says.', async t => {
  const provider = await startProvider({ audience })
  t.teardown(() => provider.close())
  const drafts = await loadRoute(t, routeSnippets.find(block => nameOf(block) === 'routes/api/drafts.ts')!)
  const settings = { IDP_AUDIENCE: audience, TRUST_PROXY: 'loopback', LOG_LEVEL: 'silent' }
  const { url } = await startApp(t, { url: provider.issuer } as Issuer, settings, app => {
    app.register(drafts, { prefix: '/api' })
  })
  const tenant = { ...provider, pid: process.pid, url, settings: { IDP_ISSUER: provider.issuer, ...settings } }
  // Addresses and clients that a reader fills in are replaced by those of the test.
  const own: Record<string, string> = {
    '--url': await startPrefixProxy(t, url),
    '--issuer': provider.issuer,
    '--audience': audience,
    '--client-id': provider.clientId
  }

  for (const { place, remark, commands } of shellLines) {
    const { words, variables } = commands[0]!
    // Those of the gate are called by test/system/guarded-application.test.ts.
    if (words.slice(0, 3).join(' ') !== 'npm run call' || place.startsWith('docs/guide/gate.md')) continue
    const argv = words.slice(4).map((word, at, all) => own[all[at - 1]!] ?? word)
    const env = 'CALL_CLIENT_SECRET' in variables ? { CALL_CLIENT_SECRET: provider.clientSecret } : {}
    const { code, text } = await shownBy(out => runCall(argv, { env, out, tenants: [tenant] }))
    const [, status, reason] = /^(\d{3}): (\w+)/.exec(remark) ?? []
    if (status === undefined) t.equal(code, 0, code === 0 ? place : `${place}\n${text}`)
    else {
      t.match(
        { code, text },
        { code: 1, text: new RegExp(`\n  ${status} [\\s\\S]*Refused: ${reason},`) },
        `${place}: ${remark}`
      )
    }
  }
})
