import { dirname, join, relative, sep } from 'node:path'

/** Who may import whom: a folder, and the folders and files that it may import from. A dot is a file at the top. */
export const ARROWS = {
  '.': ['lib', 'server', 'plugins', 'routes', '.'],
  lib: ['lib'],
  server: ['server', 'lib'],
  // A plugin reaches another through its decorator. `isOwnPart` has the exception.
  plugins: ['lib', 'server'],
  routes: ['routes', 'lib', 'server', 'schemas'],
  schemas: ['schemas', 'lib'],
  // The guard's own checks, shown to people.
  'cli/explain': ['cli/explain', 'lib'],
  // It reads settings, and opens the file of the audit, as the service does.
  cli: ['cli', 'lib', 'server', 'holdfast.ts', 'plugins/audit'],
  packages: ['packages', 'lib', 'server', 'plugins', 'routes', 'cli', 'holdfast.ts'],
  dev: ['dev', 'lib', 'server', 'cli', 'holdfast.ts', 'app.ts'],
  examples: ['examples', 'lib', 'server', 'dev', 'holdfast.ts']
}

/** The wings of lib/, and those that each may import from, beside itself. A file of lib/ is the one of refusals. */
export const WINGS = {
  base: [],
  'refusal.ts': ['base'],
  guard: ['refusal.ts', 'base'],
  gate: ['guard', 'refusal.ts', 'base'],
  revocation: ['guard', 'refusal.ts', 'base'],
  settings: ['gate', 'guard', 'base'],
  report: ['settings', 'gate', 'revocation', 'guard', 'refusal.ts', 'base'],
  assembly: ['report', 'settings', 'gate', 'revocation', 'guard', 'refusal.ts', 'base']
}

const SERVICE = ['.', 'lib', 'server', 'plugins', 'routes', 'schemas', 'cli/explain']
const PLAIN = ['lib', 'cli/explain', 'server']
const FASTIFY = /^(?:fastify|fastify-plugin|@fastify\/(?!proxy-addr$|jwt$).+)$/
const RANDOM = [
  'randomBytes',
  'randomUUID',
  'randomInt',
  'randomFill',
  'randomFillSync',
  'getRandomValues',
  'webcrypto',
  'default'
]
const PASSED_IN = 'This gets what it needs from its caller: clock, random numbers and environment are passed in.'

/** The text of a node if it is written in full. */
const textOf = node =>
  node?.type === 'TSLiteralType'
    ? textOf(node.literal)
    : node?.type === 'TemplateLiteral' && node.expressions.length === 0
      ? node.quasis[0].value.cooked
      : typeof node?.value === 'string'
        ? node.value
        : undefined

/** The parts of a plugin that needs more than one file are in a folder of its name. */
const isOwnPart = ([from, plugin], [to, part, ...rest]) =>
  from === 'plugins' && to === 'plugins' && rest.length > 0 && plugin.replace(/\.ts$/, '') === part

const isRequire = ({ type, name, object, property, callee }) =>
  (type === 'Identifier' && name === 'require') ||
  (type === 'MemberExpression' && property.name === 'resolve' &&
    (object.name === 'require' || object.type === 'MetaProperty')) ||
  (type === 'CallExpression' && callee.name === 'createRequire')

/**
 * Judges every way in which a file can name a module: imports of values and types, exports of others' exports, at run
 * time, `require`.
 */
const arrows = {
  meta: { type: 'problem', schema: [] },
  create (context) {
    const path = relative(context.cwd, context.filename).split(sep)
    const [first, second] = path
    const from = second === undefined ? '.' : ARROWS[`${first}/${second}`] ? `${first}/${second}` : first
    const allowed = ARROWS[from]

    function check (node, source, isType = false) {
      const message = problemOf(textOf(source), isType)
      if (message) context.report({ node, message })
    }

    function problemOf (name, isType) {
      if (name === undefined) {
        return SERVICE.includes(from)
          ? 'A module is named in full, so that this rule can judge it.'
          : undefined
      }
      if (!name.startsWith('.')) {
        if (['lib', 'cli/explain'].includes(from) && /^(?:node:)?process$/.test(name)) return PASSED_IN
        return PLAIN.includes(from) && !isType && FASTIFY.test(name)
          ? 'This is plain TypeScript: Fastify belongs to plugins/ and routes/.'
          : undefined
      }
      if (name.endsWith('.json')) return undefined
      const target = relative(context.cwd, join(dirname(context.filename), name)).split(sep)
      const to = target.length === 1 ? '.' : target[0]
      const isAllowed = [to, target[0], target.slice(0, 2).join('/')].some(part => allowed.includes(part))
      if (!isAllowed && !isOwnPart(path, target)) {
        return `${from === '.' ? 'The service' : `${from}/`} may import from ` +
          `${allowed.filter(other => other !== from).join(', ') || 'only itself'}; reach a plugin through its ` +
          'decorator.'
      }
      if (from !== 'lib' || second === target[1]) return undefined
      return WINGS[second]?.includes(target[1]) ? undefined : `lib/${second} may not import from lib/${target[1]}.`
    }

    return {
      ImportDeclaration: node => check(node, node.source, node.importKind === 'type'),
      ExportNamedDeclaration: node => {
        if (node.source) check(node, node.source, node.exportKind === 'type')
      },
      ExportAllDeclaration: node => check(node, node.source, node.exportKind === 'type'),
      ImportExpression: node => check(node, node.source),
      TSImportType: node => check(node, node.source ?? node.argument, true),
      TSExternalModuleReference: node => check(node, node.expression),
      CallExpression: node => {
        if (isRequire(node.callee)) check(node, node.arguments[0])
      }
    }
  }
}

/** Keeps the clock, random numbers and the environment of the process away, however they are spelt. */
const passedIn = {
  meta: { type: 'problem', schema: [] },
  create (context) {
    const report = node => context.report({ node, message: PASSED_IN })
    const isPlainMember = (parent, identifier, but) =>
      parent.type === 'MemberExpression' && parent.object === identifier && !parent.computed &&
      !but.includes(parent.property.name)
    const USES = {
      Date: (parent, identifier) =>
        (parent.type === 'NewExpression' && parent.callee === identifier && parent.arguments.length > 0) ||
        parent.operator === 'instanceof' || isPlainMember(parent, identifier, ['now', 'prototype']),
      Math: (parent, identifier) => isPlainMember(parent, identifier, ['random']),
      Function: (parent, identifier) => isPlainMember(parent, identifier, [])
    }
    const BARRED = ['process', 'performance', 'crypto', 'globalThis', 'global', 'eval']
    return {
      'Program:exit' (node) {
        const scope = context.sourceCode.getScope(node)
        const outside = [
          ...scope.through,
          ...scope.variables.filter(({ defs }) => defs.length === 0).flatMap(({ references }) => references)
        ]
        for (const { identifier, isValueReference } of outside) {
          if (isValueReference === false) continue
          const { name, parent } = identifier
          if (BARRED.includes(name) || (USES[name] && !USES[name](parent, identifier))) report(identifier)
        }
      },
      // By one name each, so that what is taken from it shows.
      'ImportDeclaration[importKind!="type"][source.value=/^(node:)?crypto$/]' (node) {
        for (const specifier of node.specifiers) {
          if (
            specifier.type !== 'ImportSpecifier' ||
            (specifier.importKind !== 'type' && RANDOM.includes(specifier.imported.name ?? specifier.imported.value))
          ) report(specifier)
        }
      },
      ':matches(ImportExpression, ExportNamedDeclaration, ExportAllDeclaration)[source.value=/^(node:)?(crypto|perf_hooks)$/]':
        report,
      'ImportDeclaration[source.value=/^(node:)?perf_hooks$/]': report,
      'CallExpression[arguments.0.value=/^(node:)?(crypto|perf_hooks|process)$/]': report
    }
  }
}

/** Assertions of tap that accept more than they say, and what says it. */
const LOOSE = { same: 'strictSame', notSame: 'strictNotSame', has: 'hasStrict', notHas: 'notHasStrict' }
const MATCHES = ['match', 'notMatch']
const SUBSETS = ['match', 'hasStrict']
const isText = node => (node.type === 'Literal' && typeof node.value === 'string') || node.type === 'TemplateLiteral'

/** The texts in a pattern that is written in full: `t.match` takes each for a part of the actual text. */
const textsIn = node =>
  isText(node)
    ? [node]
    : node.type === 'ObjectExpression'
      ? node.properties.flatMap(({ value }) => value ? textsIn(value) : [])
      : node.type === 'ArrayExpression'
        ? node.elements.flatMap(textsIn)
        : []

/** Refuses comparisons that a fault could pass: loose ones, and a text that only needs to be contained. */
const exact = {
  meta: { type: 'problem', schema: [] },
  create: context => ({
    'CallExpression[callee.type="MemberExpression"][callee.object.name="t"]' (
      { callee: { property }, arguments: [, pattern] }
    ) {
      if (LOOSE[property.name]) {
        context.report({ node: property, message: `t.${property.name} is loose; use t.${LOOSE[property.name]}.` })
      }
      if (!pattern) return
      if (SUBSETS.includes(property.name) && pattern.type === 'ArrayExpression' && pattern.elements.length === 0) {
        context.report({ node: pattern, message: 'Every list has the members of an empty one. Use t.strictSame.' })
      }
      if (!MATCHES.includes(property.name)) return
      for (const node of textsIn(pattern)) {
        context.report({
          node,
          message: 'A text matches everything that contains it. Use t.equal or t.hasStrict, a regular expression, or ' +
            'containing(text).'
        })
      }
    }
  })
}

/** The rules that know how this house is built. */
export const house = { rules: { arrows, exact, 'passed-in': passedIn } }
