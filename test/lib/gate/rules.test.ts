import t from 'tap'
import { parseRule } from '../../../lib/gate/rule.ts'
import { createRules } from '../../../lib/gate/rules.ts'

t.test('Rules that overlap make no table, and neighbours do.', t => {
  const rulesFor = (...paths: string[]) => paths.map(path => parseRule({ path, methods: ['GET'] }, { methods: ['GET'], isRefused: () => false, tell: () => {} })!)
  t.throws(() => createRules(rulesFor('/a/:b?', '/a')), { name: 'TypeError', message: 'rules for GET /a overlap' })
  t.ok(createRules(rulesFor('/a/:b', '/a')).find('GET', '/a'))
  t.end()
})
