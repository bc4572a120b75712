import t from 'tap'
import { findRule, type GateRequest } from '../../../cli/explain/rule.ts'
import { settingsFromOptions } from '../../../lib/settings/options.ts'
import { readGate } from '../../../lib/settings/validation.ts'

const RULES = [
  { path: '/orders/:id', methods: ['GET'] },
  { path: '/mcp', mcp: { tools: ['pay'] } }
]

/** What is found, and by the path of its rule where one holds. */
async function find (request: GateRequest, gate: object = { upstream: 'http://a', rules: RULES }) {
  const found = findRule(request, await readGate(settingsFromOptions({ gate })))
  switch (found.kind) {
    case 'refused':
      return [found.kind, found.detail.cause]
    case 'own':
      return [found.kind, found.own]
    case 'none':
      return [found.kind, found.pathRules?.rules.length]
    case 'rule':
      return [found.kind, found.rule.path]
    default:
      return [found.kind, found.path]
  }
}

t.test('The rule of the path and the method holds, and no other.', async t => {
  t.strictSame(await find({ method: 'GET', target: '/orders/7?page=2' }), ['rule', '/orders/:id'])
  t.strictSame(await find({ method: 'GET', target: 'https://api.example/orders/7' }), ['rule', '/orders/:id'])
  t.strictSame(await find({ method: 'POST', target: '/orders/7' }), ['none', undefined])
})

t.test('Among rules for messages the message decides.', async t => {
  const at = { method: 'POST', target: '/mcp' }
  const call = (name: string) => find({ ...at, message: { method: 'tools/call', name } })
  t.strictSame(await call('pay'), ['rule', '/mcp'])
  t.strictSame(await call('drop'), ['none', 1])
  t.strictSame(await find(at), ['message', '/mcp'])
})

t.test('A path that two programs could read differently is refused, and a path of the gate is its own.', async t => {
  t.strictSame(await find({ method: 'GET', target: '/orders//7' }), ['refused', 'double_slash'])
  t.strictSame(await find({ method: 'GET', target: '/docs/json' }), ['own', '/docs'])
  t.strictSame(await find({ method: 'GET', target: '/docs/json' }, { rules: [{ path: '/docs/*' }] }), [
    'rule',
    '/docs/*'
  ])
  const wide = { upstream: 'http://a', rules: [{ path: '/*' }, { path: '/mcp' }] }
  t.strictSame(await find({ method: 'GET', target: '/MCP' }, wide), ['refused', 'other_spelling'])
  t.strictSame(await find({ method: 'GET', target: '/MCP' }, { ...wide, exactPaths: true }), ['rule', '/*'])
})

t.test('A fault of the rules themselves is not taken for one of the path.', async t => {
  const settings = await readGate(settingsFromOptions({ gate: { rules: [{ path: '/a' }] } }))
  const rules = settings.rules.map(rule => ({ ...rule, path: 'a' }))
  t.throws(() => findRule({ method: 'GET', target: '/a' }, { ...settings, rules }), { name: 'TypeError' })
})
