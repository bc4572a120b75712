import t from 'tap'
import { containing } from '../../helpers/containing.ts'
import { readSettings } from '../../../holdfast.ts'
import { describeGuards } from '../../../lib/report/openapi/app-document.ts'
import { describeGuard } from '../../../lib/report/openapi/describe.ts'
import type { OpenapiDocument, Parameter, Reference } from '../../../lib/report/openapi/document.ts'
import { placeAddress, renderPage } from '../../../routes/docs/docs-page.ts'
import { ANY_TOKEN } from '../../../lib/guard/requirement/requirement.ts'
import {
  hooksAround,
  requirementsOf,
  scopeAlternatives,
  scopesOf,
  type RouteGuard,
  type RouteHooks
} from '../../../lib/guard/requirement/route-guard.ts'

const base: OpenapiDocument = {
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

t.test('An address stays one shell word and text on the page', async t => {
  const page = renderPage({ ...base, paths: { '/x': { get: { responses: {} } } } })
  t.match(
    placeAddress(page, "https://a'b&c.example"),
    containing("<pre><code>curl -i 'https://a'\\''b&amp;c.example/x'</code></pre>")
  )
})

/** The lines that the page has for `npm run call`, of an operation with DPoP. */
function dpopLineOf (operation: object, method = 'post') {
  const page = renderPage({
    ...base,
    paths: { '/x/{id}': { [method]: { security: [{ DPoP: ['a', 'b'] }], responses: {}, ...operation } } }
  })
  return /npm run call -- --url '\0' (.*)<\/code>/.exec(page)?.[1]
}

t.test('The line for DPoP has the parameters and the body of the example', async t => {
  const schema = { type: 'object', required: ['text'], properties: { text: { type: 'string', examples: ["it's"] } } }
  t.equal(
    dpopLineOf({ requestBody: { content: { 'application/json': { schema } } } }),
    "--dpop POST '/x/7' --scope 'a b' --json '{&quot;text&quot;:&quot;it'\\''s&quot;}'"
  )
  t.equal(
    dpopLineOf({ requestBody: { content: { 'text/plain': { schema: { type: 'string' } } } } }),
    "--dpop POST '/x/7' --scope 'a b' --header 'Content-Type: text/plain' --data 'text'"
  )
  t.equal(
    dpopLineOf({ parameters: [{ name: 'id', in: 'path', schema: { type: 'integer', minimum: 3 } }] }, 'get'),
    "--dpop GET '/x/3' --scope 'a b'",
    'the twin without a body'
  )
  t.equal(dpopLineOf({ security: [{ Bearer: [] }] }), undefined)
})

t.test('The line for DPoP logs in a user where the route asks for a login', async t => {
  const line = (requirement: object) =>
    dpopLineOf({ security: [{ DPoP: [] }], 'x-requirements': [requirement] }, 'get')
  t.equal(line({ maxAgeSeconds: 60 }), "--dpop GET '/x/7' --user ada")
  t.equal(line({ acr: ['high', 'higher'] }), "--dpop GET '/x/7' --user ada --param 'acr_values=high'")
  t.equal(line({ claims: { a: ['b'] } }), "--dpop GET '/x/7'", 'the twin without a login')
})

t.test('Every kind of schema is described in words', async t => {
  const bodyOf = (schema: object) => {
    const page = renderPage({
      ...base,
      tags: [{ name: 'T', description: '' }],
      paths: {
        '/x': {
          get: { tags: ['T'], responses: { 200: { description: 'OK', content: { 'application/json': { schema } } } } }
        }
      },
      components: { ...base.components, schemas: { Named: { type: 'integer' } } }
    })
    return /<td>OK<\/td><td>(.*)<\/td>/.exec(page)![1]!
  }
  const table: ReadonlyArray<readonly [schema: object, words: string]> = [
    [{ type: ['string', 'null'] }, 'string or null'],
    [{}, 'anything'],
    [{ type: 'array', items: { type: 'string' } }, 'list of string'],
    [{ type: 'object', additionalProperties: { type: 'string' } }, 'object of string'],
    [{ anyOf: [{ type: 'string' }, { $ref: '#/components/schemas/Named' }] }, 'string or integer'],
    [
      { type: 'object', properties: { a: { type: 'string' }, b: {} } },
      '<code>a</code> string<br><code>b</code> anything'
    ]
  ]
  for (const [schema, words] of table) t.equal(bodyOf(schema), words)
})

t.test('A document without tags and operations is a page all the same', async t => {
  t.match(renderPage(base), /<main>[^]*<\/main>/)
  t.match(
    renderPage({ ...base, tags: [{ name: 'T', description: '' }], paths: { '/x': { get: { responses: {} } } } }),
    /<h2 id="tag-T"><a href="#tag-T">T<\/a><\/h2>/
  )
  t.match(
    renderPage({ ...base, components: { ...base.components, responses: { R: { description: 'none' } } } }),
    /<h3 id="refusal-r"><a href="#refusal-r">R<\/a><\/h3>/
  )
})

t.test('The proof is added to the parameters of an app, unless one of them has that name in any case', async t => {
  const settings = await readSettings({ IDP_DOMAIN: 'tenant.example', IDP_AUDIENCE: 'https://api.example' })
  const parametersBeside = (...own: Array<Parameter | Reference>): unknown[] => {
    const document = { openapi: '3.1.0', paths: { '/x': { get: { parameters: own, 'x-holdfast-guard': 'g' } } } }
    describeGuards(document, new Map([['g', [ANY_TOKEN]]]), settings)
    return document.paths['/x'].get.parameters.map(parameter => 'name' in parameter ? parameter.name : parameter.$ref)
  }
  const named = (name: string): Parameter => ({ name, in: 'header', schema: {} })
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

t.test('Where security names no scopes, the requirements are told as a whole', async t => {
  const login: RouteGuard[number] = { optional: true, scope: ['a'] }
  const told = (guard: RouteGuard, areScopesNamed: boolean): unknown =>
    Object.entries(describeGuard(guard, undefined, areScopesNamed)).find(([name]) => name === 'x-requirements')?.[1]
  t.strictSame(told([{}, login], false), [{}, login], 'a plain one beside it means that a token is needed')
  t.strictSame(told([{}, login], true), [login])
  t.strictSame(told([{}, { optional: true }], false), [{ optional: true }])
  t.equal(told([{}], false), undefined)
})
