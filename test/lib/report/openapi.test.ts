import t from 'tap'
import { readSettings } from '../../../holdfast.ts'
import { describeGuards } from '../../../lib/report/openapi/app-document.ts'
import { describeGuard } from '../../../lib/report/openapi/describe.ts'
import { guardStatuses } from '../../../lib/report/openapi/refused.ts'
import { renderPage } from '../../../routes/docs/page.ts'
import { ANY_TOKEN } from '../../../lib/guard/requirement/requirement.ts'
import {
  hooksAround,
  requirementsOf,
  scopeAlternatives,
  scopesOf,
  type RouteGuard,
  type RouteHooks
} from '../../../lib/guard/requirement/route-guard.ts'

const base = {
  openapi: '3.1.0',
  info: { title: '<b>"A" & B</b>', version: '1' },
  paths: {},
  components: { securitySchemes: {}, parameters: {}, responses: {}, schemas: {} }
}

t.test('Strings of a document are text on the page, never markup', async t => {
  const page = renderPage({
    ...base,
    tags: [{ name: '<i>tag</i>', description: 'with `<code>` in it' }],
    paths: {
      '/<x>': { get: { tags: ['<i>tag</i>'], summary: '<u>summary</u>', responses: { 200: { description: '<s>' } } } }
    }
  })
  t.notMatch(page, /<(?:b|i|u|s|x)>/)
  t.ok(page.includes('<h1>&lt;b&gt;&quot;A&quot; &amp; B&lt;/b&gt;</h1>'))
  t.ok(page.includes('with <code>&lt;code&gt;</code> in it'))
})

t.test('A document without tags and operations is a page all the same', async t => {
  t.match(renderPage(base), /<main>[^]*<\/main>/)
  const page = renderPage({ ...base, tags: [{ name: 'T', description: '' }], paths: { '/x': { get: { responses: {} } } } })
  t.match(page, /<h2>T<\/h2>[^]*<h2>Other<\/h2>[^]*<td><code>GET \/x<\/code><\/td><td>nothing<\/td>/)
})

t.test('The proof is added to the parameters of an app, unless one of them has that name in any case', async t => {
  const settings = await readSettings({ IDP_DOMAIN: 'tenant.example', IDP_AUDIENCE: 'https://api.example' })
  const parametersBeside = (...own: Array<Record<string, unknown>>) => {
    const document = { openapi: '3.1.0', paths: { '/x': { get: { parameters: own, 'x-holdfast-guard': 'g' } } } }
    describeGuards(document, new Map([['g', [ANY_TOKEN]]]), settings)
    return document.paths['/x'].get.parameters.map(parameter => 'name' in parameter ? parameter.name : parameter.$ref)
  }
  const named = (name: string) => ({ name, in: 'header', schema: {} })
  t.strictSame(parametersBeside(), ['DPoP'])
  t.strictSame(parametersBeside(named('tenant')), ['tenant', 'DPoP'])
  t.strictSame(parametersBeside(named('tenant'), named('dpop')), ['tenant', 'dpop'])
  t.strictSame(parametersBeside(named('dpop')), ['dpop'])
  t.strictSame(parametersBeside(named('DPoP')), ['DPoP'])
  t.strictSame(parametersBeside({ $ref: '#/parameters/tenant' }), ['#/parameters/tenant', 'DPoP'])
})

t.test('The guards of a route are read from its hooks', async t => {
  const guard = (requirement: unknown) => Object.assign(() => {}, { requirement })
  const [all, any] = [guard({ scope: ['a', 'b'] }), guard({ anyScope: ['b', 'c'] })]
  const alternativesOf = (hooks: RouteHooks) => scopeAlternatives(requirementsOf(hooks))
  t.strictSame(
    requirementsOf({ onRequest: [() => {}, guard(undefined), { requirement: {} }] }),
    [],
    'no guard among other hooks'
  )
  t.strictSame(requirementsOf({}), [])
  t.strictSame(requirementsOf({ onRequest: all }, { onRequest: [all, any] }).length, 2, 'one that is there twice counts once')
  t.strictSame(hooksAround({}), {}, 'nothing is known of the hooks around it if Fastify no longer keeps them there')
  t.strictSame(alternativesOf({ onRequest: guard(ANY_TOKEN) }), [[]], 'any valid token')
  t.strictSame(alternativesOf({ preParsing: all }), [['a', 'b']])
  t.strictSame(alternativesOf({ preValidation: [any] }), [['b'], ['c']])
  t.strictSame(
    alternativesOf({ onRequest: [guard(ANY_TOKEN), all], preHandler: any }),
    [['a', 'b'], ['a', 'b', 'c']],
    'several guards add up'
  )
  t.strictSame(alternativesOf({ onRequest: guard({ scope: ['a'], anyScope: ['b', 'c'] }) }), [['a', 'b'], ['a', 'c']])
  t.strictSame(requirementsOf({ onRequest: [all, any] }).flatMap(scopesOf), ['a', 'b', 'b', 'c'])
})

t.test('A guard may forbid by what it asks of a valid token, and not by a login that can be repeated', async t => {
  const settings = await readSettings({ IDP_DOMAIN: 'tenant.example', IDP_AUDIENCE: 'https://api.example' })
  const [words, claims, authorizationDetails] = [['a'], [{ name: 'a', allowed: [1] }], [{ type: 'a' }]]
  const rows: Array<[requirement: object, mayForbid: boolean]> = [
    [{ scope: words }, true],
    [{ anyScope: words }, true],
    [{ claims }, true],
    [{ authorizationDetails }, true],
    [{}, false],
    [{ acr: words }, false],
    [{ maxAgeSeconds: 1 }, false]
  ]
  for (const [requirement, mayForbid] of rows) {
    t.equal(guardStatuses([{}, requirement], settings).includes(403), mayForbid, JSON.stringify(requirement))
  }
})

t.test('Where security names no scopes, the requirements are told as a whole', async t => {
  const login: RouteGuard[number] = { optional: true, scope: ['a'] }
  const told = (guard: RouteGuard, areScopesNamed: boolean) =>
    Object.entries(describeGuard(guard, undefined, areScopesNamed)).find(([name]) => name === 'x-requirements')?.[1]
  t.strictSame(told([{}, login], false), [{}, login], 'a plain one beside it means that a token is needed')
  t.strictSame(told([{}, login], true), [login])
  t.strictSame(told([{}, { optional: true }], false), [{ optional: true }])
  t.equal(told([{}], false), undefined)
})
