import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import service from '../../packages/holdfast/service.ts'
import { createTestIssuer } from '../../packages/holdfast/testing.ts'
import { containing } from '../helpers/containing.ts'
import { root } from '../helpers/documents.ts'
import { startUpstream } from '../helpers/upstream.ts'
import { createApp } from '../helpers/app.ts'

/** The converter of Oathkeeper's rules: what it makes decides as the rules do, and what it cannot say it refuses. */

type Part = Record<string, any>
interface Converted {
  config?: Part
  problems?: readonly string[]
}
const folder = join(root, 'examples/migration')
const { convert } = await import('../../examples/migration/oathkeeper.js' as string) as {
  convert (rules: readonly Part[]): Converted
}
const RULES = join(folder, 'oathkeeper.rules.yaml')
/** Anchors share parts, which a test must not change for all. */
const rulesOf = (): Part[] => structuredClone(JSON.parse(JSON.stringify(parse(readFileSync(RULES, 'utf8'), { merge: true }))))

t.test('The gate decides by the converted rules as Oathkeeper by its own.', async t => {
  const { status, stdout } = spawnSync(process.execPath, [join(folder, 'oathkeeper.js'), RULES], { encoding: 'utf8' })
  t.equal(status, 0)
  const config = parse(stdout) as Part
  t.strictSame(config, convert(rulesOf()).config)
  t.strictSame(config['idp'], {
    issuer: 'https://tenant.example/',
    jwksUri: 'https://tenant.example/.well-known/jwks.json',
    algs: ['RS256'],
    audience: 'https://api.example'
  })
  const upstream = await startUpstream(t)
  const idp = await createTestIssuer({ issuer: config['idp'].issuer, audience: config['idp'].audience })
  const app = createApp(t)
  await app.register(service, { ...idp.options, gate: { ...config['gate'], upstream: upstream.origin } } as never)
  const statusOf = async (method: 'GET' | 'HEAD' | 'POST', url: string, token?: string) =>
    (await app.inject({ method, url, headers: token ? { authorization: `Bearer ${token}` } : {} })).statusCode

  const [reader, other] = [await idp.token({ scope: 'read:orders' }), await idp.token({ scope: 'else' })]
  const expired = await idp.expiredToken({ scope: 'read:orders' })
  t.equal(await statusOf('GET', '/status'), 200, 'noop')
  t.equal(await statusOf('GET', '/orders/7', reader), 200, 'jwt with its scope')
  t.equal(await statusOf('HEAD', '/orders/7', reader), 200)
  t.equal(await statusOf('GET', '/orders/7', other), 403)
  t.equal(await statusOf('GET', '/orders/7', expired), 401)
  t.equal(await statusOf('GET', '/orders/7'), 401)
  t.equal(await statusOf('GET', '/orders/7/lines', reader), 404, '<[^/]+> is one segment')
  t.equal(await statusOf('POST', '/orders/7', reader), 404, 'no rule for the method')
  t.equal(await statusOf('GET', '/news/a/b'), 200, 'anonymous after jwt')
  t.equal(await statusOf('GET', '/news/a/b', expired), 401, 'a bad token is refused')
})

const jwtOf = (rule: Part): Part => rule['authenticators'][0].config
/** A change to the second rule, and what is said of it. */
const REFUSED: ReadonlyArray<readonly [change: (rule: Part) => void, problem: string]> = [
  [rule => { rule['errors'] = [{ handler: 'redirect' }] }, 'errors has no counterpart'],
  [rule => { rule['upstream'].strip_path = '/api' }, 'upstream.strip_path has no counterpart'],
  [rule => { rule['match'].url = 'https://api.example/orders/<[0-9]+>' }, 'only <[^/]+>, and <.*> at the end'],
  [rule => { rule['match'].url = 'https://api.example/<.*>/lines' }, 'only <[^/]+>, and <.*> at the end'],
  [rule => { rule['match'].url = 'https://api.example/orders<.*>' }, 'only <[^/]+>, and <.*> at the end'],
  [rule => { rule['match'].url = 'https://api.example/orders/*' }, 'only <[^/]+>, and <.*> at the end'],
  [rule => { rule['match'].url = 'https://api.example/orders/:id' }, 'only <[^/]+>, and <.*> at the end'],
  [rule => { rule['match'].url = 'https://<a|b>.example/orders' }, 'needs an origin in full'],
  [rule => { delete rule['match'].methods }, 'match.methods is missing'],
  [rule => { rule['match'].methods = ['HEAD'] }, 'HEAD goes with GET'],
  [rule => { rule['match'].query = 'a' }, 'match.query has no counterpart'],
  [rule => { rule['authenticators'] = [{ handler: 'oauth2_introspection' }] }, 'authenticator oauth2_introspection'],
  [rule => { rule['authenticators'] = [] }, 'authenticator undefined'],
  [rule => { delete rule['authenticators'] }, 'authenticators is missing'],
  [rule => { rule['authenticators'] = [{ handler: 'anonymous', config: { subject: 'guest' } }] }, 'anonymous: subject has no'],
  [rule => { rule['authenticators'].push({ handler: 'cookie_session' }) }, 'after jwt only anonymous'],
  [rule => { rule['authenticators'].unshift({ handler: 'anonymous' }) }, 'authenticator anonymous'],
  [rule => { jwtOf(rule)['token_from'] = { query_parameter: 't' } }, 'authenticator jwt: token_from has no counterpart'],
  [rule => { jwtOf(rule)['scope_strategy'] = 'wildcard' }, 'scope_strategy wildcard: only exact'],
  [rule => { delete jwtOf(rule)['scope_strategy'] }, 'scope_strategy none: only exact'],
  [rule => { delete jwtOf(rule)['trusted_issuers'] }, 'trusted_issuers must be one'],
  [rule => { jwtOf(rule)['target_audience'].push('b') }, 'target_audience must be one'],
  [rule => { jwtOf(rule)['jwks_urls'].push('https://b.example/keys') }, 'jwks_urls must be one'],
  [rule => { rule['authorizer'] = { handler: 'remote_json' } }, 'authorizer remote_json: only allow'],
  [rule => { rule['authorizer'] = { handler: 'deny' } }, 'authorizer deny: only allow'],
  [rule => { delete rule['authorizer'] }, 'authorizer undefined: only allow'],
  [rule => { rule['mutators'] = [{ handler: 'header' }] }, 'mutator header']
]

t.test('What the gate cannot say is refused, rule by rule.', async t => {
  for (const [change, problem] of REFUSED) {
    const rules = rulesOf()
    change(rules[1]!)
    const { config, problems } = convert(rules)
    t.equal(config, undefined, problem)
    t.equal(problems!.length, 1, problems!.join('\n'))
    t.match(problems![0], containing('read-orders: '))
    t.match(problems![0], containing(problem))
  }
})

t.test('What differs between rules and is one for a gate is refused.', async t => {
  const CHANGES: ReadonlyArray<(rule: Part) => void> = [
    rule => { rule['match'].url = 'https://other.example/orders/<[^/]+>' },
    rule => { rule['upstream'].url = 'http://127.0.0.1:3001' },
    rule => { rule['upstream'].preserve_host = false },
    rule => { jwtOf(rule)['trusted_issuers'] = ['https://other.example/'] },
    rule => { jwtOf(rule)['allowed_algorithms'] = ['ES256'] }
  ]
  for (const change of CHANGES) {
    const rules = rulesOf()
    change(rules[1]!)
    t.match(convert(rules).problems, [/^all rules: one gate has one of these: /], String(change))
  }
  const audiences = rulesOf()
  jwtOf(audiences[2]!)['target_audience'] = ['https://news.example']
  t.equal(convert(audiences).config!['gate'].rules[2].audience, 'https://news.example', 'an audience may differ')
  t.match(convert(rulesOf().slice(0, 1)).problems, [/none of them asks for a token/])
  const withPath = rulesOf()
  for (const rule of withPath) rule['upstream'].url = 'http://127.0.0.1:3000/v1'
  t.match(convert(withPath).problems, [/upstream\.url is no origin/])
})

t.test('The command writes nothing when it refuses.', async t => {
  const file = join(t.testdir({ 'rules.json': JSON.stringify([{ id: 'a', match: {}, authorizer: { handler: 'deny' } }]) }), 'rules.json')
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(folder, 'oathkeeper.js'), file], { encoding: 'utf8' })
  t.strictSame([status, stdout], [1, ''])
  t.match(stderr, /^a: authorizer deny: /)
})
