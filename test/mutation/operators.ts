import ts from 'typescript'
import { isProse } from './prose.ts'

/** One small change of a program: `text` takes the place of the characters from `start` to `end`. */
export interface Change {
  readonly operator: string
  readonly start: number
  readonly end: number
  readonly text: string
}

const K = ts.SyntaxKind

/** What takes the place of an operator between two values: its neighbour, and for an order its opposite. */
const OPERATORS = new Map<ts.SyntaxKind, readonly [operator: string, near: string, opposite?: string]>([
  [K.LessThanToken, ['boundary', '<=', '>=']],
  [K.LessThanEqualsToken, ['boundary', '<', '>']],
  [K.GreaterThanToken, ['boundary', '>=', '<=']],
  [K.GreaterThanEqualsToken, ['boundary', '>', '<']],
  [K.EqualsEqualsEqualsToken, ['equality', '!==']],
  [K.ExclamationEqualsEqualsToken, ['equality', '===']],
  [K.AmpersandAmpersandToken, ['logical', '||']],
  [K.BarBarToken, ['logical', '&&']],
  [K.PlusToken, ['arithmetic', '-']],
  [K.MinusToken, ['arithmetic', '+']],
  [K.AsteriskToken, ['arithmetic', '/']],
  [K.SlashToken, ['arithmetic', '*']],
  [K.PercentToken, ['arithmetic', '*']],
  [K.PlusEqualsToken, ['arithmetic', '-=']],
  [K.MinusEqualsToken, ['arithmetic', '+=']],
  [K.QuestionQuestionEqualsToken, ['nullish', '=']],
  [K.LessThanLessThanToken, ['bits', '>>']],
  [K.GreaterThanGreaterThanToken, ['bits', '<<']],
  [K.GreaterThanGreaterThanGreaterThanToken, ['bits', '<<']],
  [K.AmpersandToken, ['bits', '|']],
  [K.BarToken, ['bits', '&']],
  [K.CaretToken, ['bits', '&']]
])

/** Methods that differ from each other in one thing that tests should see. */
const METHODS: ReadonlyMap<string, string> = new Map([
  ['some', 'every'],
  ['every', 'some'],
  ['startsWith', 'endsWith'],
  ['endsWith', 'startsWith'],
  ['min', 'max'],
  ['max', 'min']
])

/** Methods that may be left out: what they are called on takes their place. */
const OPTIONAL_METHODS: ReadonlySet<string> = new Set([
  'toLowerCase',
  'toUpperCase',
  'trim',
  'filter',
  'slice',
  'sort',
  'toSorted',
  'reverse',
  'concat',
  'unref',
  'catch'
])

type Look = (node: ts.Node, change: (operator: string, of: ts.Node, text: string) => void) => void

/**
 * Conditions are always true and always false. A loop that never ends shows nothing, so loops are only never entered.
 */
const conditional: Look = (node, change) => {
  if (ts.isIfStatement(node)) { for (const text of ['true', 'false']) change('conditional', node.expression, text) }
  if (ts.isConditionalExpression(node)) {
    for (const text of ['true', 'false']) change('conditional', node.condition, text)
  }
  if (ts.isWhileStatement(node)) change('conditional', node.expression, 'false')
  if (ts.isForStatement(node) && node.condition) change('conditional', node.condition, 'false')
  if (ts.isPrefixUnaryExpression(node) && node.operator === K.ExclamationToken && !isCondition(node)) {
    change('negation', node, textOf(node.operand))
  }
}

const binary: Look = (node, change) => {
  if (!ts.isBinaryExpression(node)) return
  const { left, right, operatorToken } = node
  const [operator, near, opposite] = OPERATORS.get(operatorToken.kind) ?? []
  // A whole condition is made true and false already: its opposite shows nothing more.
  if (operator && near && !(operator === 'equality' && isCondition(node)) && !(operator === 'boundary' && isClock(node))) {
    change(operator, operatorToken, near)
  }
  if (operator && opposite && !isCondition(node)) change(operator, operatorToken, opposite)
  const neutral = { [K.AmpersandAmpersandToken]: 'true', [K.BarBarToken]: 'false' }[operatorToken.kind as number]
  if (neutral) { for (const side of [left, right]) if (!isSameKind(side, node)) change('operand', side, neutral) }
  if (operatorToken.kind === K.QuestionQuestionToken) {
    for (const side of [left, right]) change('nullish', node, textOf(side))
  }
}

const literal: Look = (node, change) => {
  if (node.kind === K.TrueKeyword) change('boolean', node, 'false')
  if (node.kind === K.FalseKeyword) change('boolean', node, 'true')
  if (ts.isStringLiteral(node) && !isName(node)) change('string', node, node.text === '' ? "'mutant'" : "''")
  if (ts.isNoSubstitutionTemplateLiteral(node) || ts.isTemplateExpression(node)) change('string', node, '``')
  if (ts.isArrayLiteralExpression(node) && node.elements.length > 0 && !isTarget(node)) change('array', node, '[]')
  if (ts.isObjectLiteralExpression(node) && node.properties.length > 0 && !isTarget(node)) change('object', node, '{}')
  // Of other values nothing else would be changed.
  if (
    ts.isPropertyAssignment(node) &&
    (ts.isIdentifier(node.initializer) || ts.isPropertyAccessExpression(node.initializer) ||
      ts.isNumericLiteral(node.initializer)) &&
    !isTarget(node.parent)
  ) {
    if (textOf(node.initializer) !== 'undefined') change('member', node.initializer, 'undefined')
  }
  if (ts.isNumericLiteral(node) && !isKey(node) && !isLimit(node)) {
    change('number', node, String(isTime(node) ? Number(node.text) * 2 : Number(node.text) + 1))
  }
  // The others are changed in place. An object of one property is changed as a whole.
  if (ts.isShorthandPropertyAssignment(node) && node.parent.properties.length > 1 && !isTarget(node.parent)) {
    change('property', node, `${node.name.text}: undefined`)
  }
  if (ts.isRegularExpressionLiteral(node)) {
    const text = textOf(node)
    if (text.startsWith('/^')) change('regex', node, '/' + text.slice(2))
    if (/[^\\]\$\/[a-z]*$/.test(text)) change('regex', node, text.replace(/\$(\/[a-z]*)$/, '$1'))
  }
}

const statement: Look = (node, change) => {
  if ((ts.isReturnStatement(node) && !isEnd(node)) || ts.isThrowStatement(node)) change('statement', node, ';')
  if (ts.isExpressionStatement(node) && !ts.isStringLiteral(node.expression)) change('statement', node, ';')
  if (ts.isContinueStatement(node) || ts.isBreakStatement(node)) change('statement', node, ';')
  if (ts.isArrowFunction(node) && !ts.isBlock(node.body)) change('statement', node.body, 'undefined')
}

const call: Look = (node, change) => {
  if (
    (ts.isPropertyAccessExpression(node) || ts.isElementAccessExpression(node) || ts.isCallExpression(node)) &&
    node.questionDotToken
  ) {
    change('chaining', node.questionDotToken, ts.isPropertyAccessExpression(node) ? '.' : '')
  }
  if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression)) {
    const { name, expression } = node.expression
    const other = METHODS.get(name.text)
    if (other) change('method', name, other)
    if (OPTIONAL_METHODS.has(name.text)) change('method', node, textOf(expression))
  }
  if ((ts.isPrefixUnaryExpression(node) || ts.isPostfixUnaryExpression(node)) && node.operator === K.PlusPlusToken) {
    change('arithmetic', node, textOf(node).replace('++', '--'))
  }
}

/**
 * All changes to one file, in the order of their places. `source` is JavaScript, or what is left of TypeScript without
 * its types. Sentences for people are left as they are.
 */
export function findChanges (source: string, isOfCommand: boolean): Change[] {
  const file = ts.createSourceFile('file.js', source, ts.ScriptTarget.Latest, true, ts.ScriptKind.JS)
  const changes: Change[] = []
  const visit = (node: ts.Node) => {
    if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) return
    for (const look of [conditional, binary, literal, statement, call]) {
      look(node, (operator, of, text) => {
        const start = of.getStart(file)
        if (source.slice(start, of.end) === text || (operator === 'string' && isProse(of, isOfCommand))) return
        changes.push({ operator, start, end: of.end, text: text === '{}' ? '({})' : text })
      })
    }
    ts.forEachChild(node, visit)
  }
  visit(file)
  return changes.sort((a, b) => a.start - b.start || a.end - b.end)
}

/**
 * Where a place is: the names of the functions around it as `outer.inner`, and whether it runs when the file is loaded.
 */
export function placesIn (source: string): (place: number) => { within: string, isTop: boolean } {
  const file = ts.createSourceFile('file.js', source, ts.ScriptTarget.Latest, true, ts.ScriptKind.JS)
  const around: { name: string | undefined, isFunction: boolean, start: number, end: number }[] = []
  const visit = (node: ts.Node) => {
    const [name, isFunction] = [nameOf(node), ts.isFunctionLike(node)]
    if (name ?? isFunction) around.push({ name, isFunction, start: node.pos, end: node.end })
    ts.forEachChild(node, visit)
  }
  visit(file)
  return place => {
    const found = around.filter(({ start, end }) => start <= place && place < end)
    return {
      within: found.flatMap(({ name }) => name ?? []).join('.'),
      isTop: !found.some(({ isFunction }) => isFunction)
    }
  }
}

function nameOf (node: ts.Node) {
  if (ts.isConstructorDeclaration(node)) return 'constructor'
  if (!ts.isFunctionLike(node) && !ts.isClassLike(node)) return undefined
  const { parent } = node
  const name = node.name ??
    (ts.isVariableDeclaration(parent) || ts.isPropertyAssignment(parent) ? parent.name : undefined)
  return name && (ts.isIdentifier(name) || ts.isPrivateIdentifier(name)) ? name.text : undefined
}

function textOf (node: ts.Node) {
  return node.getText()
}

function isSameKind (side: ts.Node, node: ts.BinaryExpression) {
  return ts.isBinaryExpression(side) && side.operatorToken.kind === node.operatorToken.kind
}

function isCondition (node: ts.Node) {
  const { parent } = node
  return (ts.isIfStatement(parent) && parent.expression === node) ||
    (ts.isConditionalExpression(parent) && parent.condition === node)
}

/** A `return` without a value at the end of a function, which returns undefined there all the same. */
function isEnd (node: ts.ReturnStatement) {
  const { expression } = node
  const hasValue = expression !== undefined && !(ts.isIdentifier(expression) && expression.text === 'undefined')
  return !hasValue && isLast(node)
}

/**
 * Whether the function ends after a statement, also one inside of a condition or a `try`. A `return` in `finally`
 * undoes another one.
 */
function isLast (node: ts.Statement): boolean {
  const { parent } = node
  if (ts.isIfStatement(parent)) return isLast(parent)
  if (!ts.isBlock(parent) || parent.statements.at(-1) !== node) return false
  const owner = parent.parent
  if (ts.isFunctionLike(owner)) return true
  if (ts.isCatchClause(owner)) return isLast(owner.parent)
  if (ts.isTryStatement(owner)) return parent === owner.tryBlock && isLast(owner)
  return ts.isIfStatement(owner) && isLast(owner)
}

/**
 * A text that names something: a key, a module, without which the program does not even load; or a symbol, whose name
 * nobody reads.
 */
function isName (node: ts.StringLiteral) {
  const { parent } = node
  return isKey(node) || ts.isElementAccessExpression(parent) ||
    (ts.isCallExpression(parent) && /^(?:import|Symbol)$/.test(textOf(parent.expression))) || ts.isExpressionStatement(parent)
}

function isKey (node: ts.Node) {
  return ts.isPropertyAssignment(node.parent) && node.parent.name === node
}

/** The limit of `text.split(':', 2)[1]`: a higher one only makes pieces that nobody reads. */
function isLimit ({ parent: call, text }: ts.NumericLiteral) {
  if (!ts.isCallExpression(call) || !/\bsplit$/.test(textOf(call.expression))) return false
  const { parent } = call
  return ts.isElementAccessExpression(parent) && Number(textOf(parent.argumentExpression)) < Number(text)
}

/** The value of a constant of milliseconds or seconds: one more is no fault, twice the time is one. */
function isTime (node: ts.NumericLiteral) {
  let whole: ts.Node = node
  while (ts.isBinaryExpression(whole.parent)) whole = whole.parent
  const { parent } = whole
  return (ts.isVariableDeclaration(parent) || ts.isPropertyAssignment(parent)) && Number(node.text) > 1 &&
    /(?:_MS|Ms|_SECONDS|Seconds)$/.test(textOf(parent.name))
}

/** A comparison with a clock that has fractions of a millisecond: nothing is ever equal to it. */
function isClock (node: ts.Node) {
  return /\bsteadyMs\(\)|\bperformance\.now\(\)/.test(textOf(node))
}

/** The left side of an assignment. */
function isTarget (node: ts.Node) {
  let inner = node
  while (ts.isArrayLiteralExpression(inner.parent) || ts.isSpreadElement(inner.parent)) inner = inner.parent
  return (ts.isBinaryExpression(inner.parent) && inner.parent.left === inner &&
    inner.parent.operatorToken.kind === K.EqualsToken) ||
    (ts.isForOfStatement(inner.parent) && inner.parent.initializer === inner)
}
