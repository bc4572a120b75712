import t from 'tap'
import { timeoutSecondsOf } from '../../../lib/gate/executor.ts'
import { parseRule, type GateRule } from '../../../lib/gate/rule.ts'
import { createRules, nameMatches } from '../../../lib/gate/rules.ts'

t.test('Rules that overlap make no table, and neighbours do.', async t => {
  const rulesFor = (...paths: string[]) =>
    paths.map(path =>
      parseRule({ path, methods: ['GET'] }, { isRefused: () => false, tell: () => {} })!
    )
  t.throws(() => createRules(rulesFor('/a/:b?', '/a')), { name: 'TypeError', message: 'rules for GET /a overlap' })
  t.ok(createRules(rulesFor('/a/:b', '/a')).find('GET', '/a'))
})

t.test('A request has the time limit of its rule, and a batch the longest of its rules.', async t => {
  const rule = (timeoutSeconds?: number) =>
    parseRule({ path: '/a', timeoutSeconds }, { isRefused: () => false, tell: () => {} })!
  const of = (...rules: GateRule[]) =>
    timeoutSecondsOf({ gated: null, mcpMatches: rules.map(rule => ({ rule, method: undefined, tool: undefined })) }, 30)
  t.strictSame([of(rule()), of(rule(5)), of(rule(5), rule()), of(rule(5), rule(60), rule())], [30, 5, 30, 60])
  const gated = { pathRules: { rules: [rule(7)] } } as never
  t.equal(timeoutSecondsOf({ gated, mcpMatches: null }, 30), 7)
})

const ruleOf = (given: object) => parseRule(given, { isRefused: () => false, tell: () => {} })!

t.test('Matches are named by method and tool, each once.', async t => {
  const rule = ruleOf({ path: '/a' })
  const names = [[undefined, undefined], ['m', undefined], ['m', 't'], ['m', 't']] as const
  t.equal(nameMatches(names.map(([method, tool]) => ({ rule, method, tool }))), 'any, m, m t')
})

t.test('A path is near an enforced rule if one program may read it so, unless paths are exact.', async t => {
  const rules = [ruleOf({ path: '/closed', observe: false }), ruleOf({ path: '/open' })]
  const paths = ['/Closed/', '/closed.json', '/closed;v=1', '/Open/', '/other']
  for (const exactPaths of [false, true]) {
    const { isNearEnforced } = createRules(rules, { exactPaths })
    t.strictSame(paths.map(path => isNearEnforced('GET', path)), [!exactPaths, !exactPaths, !exactPaths, false, false])
  }
})

t.test('A stream of events is cut as the messages of its path are.', async t => {
  for (const [isCut, cut] of [[true, { onlyRuled: true }], [false, {}]] as const) {
    const listing = ruleOf({ path: '/mcp', mcp: { methods: ['tools/list'], ...cut } })
    const { listOfStream } = createRules([listing, ruleOf({ path: '/other', methods: ['GET'] })])
    const lists = [['GET', '/mcp'], ['POST', '/mcp'], ['GET', '/other']].map(([method, path]) => listOfStream(method!, path!))
    t.strictSame(lists.map(list => list !== undefined), [isCut, false, false])
  }
})
