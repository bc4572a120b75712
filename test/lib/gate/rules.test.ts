import t from 'tap'
import { timeoutSecondsOf } from '../../../lib/gate/executor.ts'
import { parseRule, type GateRule } from '../../../lib/gate/rule.ts'
import { createRules } from '../../../lib/gate/rules.ts'

t.test('Rules that overlap make no table, and neighbours do.', async t => {
  const rulesFor = (...paths: string[]) =>
    paths.map(path =>
      parseRule({ path, methods: ['GET'] }, { isRefused: () => false, tell: () => {} })!
    )
  t.throws(() => createRules(rulesFor('/a/:b?', '/a')), { name: 'TypeError', message: 'rules for GET /a overlap' })
  t.ok(createRules(rulesFor('/a/:b', '/a')).find('GET', '/a'))
})

t.test('A request has the time limit of its rule, and a batch the longest of its rules.', async t => {
  const rule = (timeoutSeconds?: number): GateRule =>
    parseRule({ path: '/a', timeoutSeconds }, { isRefused: () => false, tell: () => {} })!
  const of = (...rules: GateRule[]) =>
    timeoutSecondsOf({ gated: null, mcpMatches: rules.map(rule => ({ rule, method: undefined, tool: undefined })) }, 30)
  t.strictSame([of(rule()), of(rule(5)), of(rule(5), rule()), of(rule(5), rule(60), rule())], [30, 5, 30, 60])
  const gated = { pathRules: { rules: [rule(7)] } } as never
  t.equal(timeoutSecondsOf({ gated, mcpMatches: null }, 30), 7)
})
