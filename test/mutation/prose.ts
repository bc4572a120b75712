import ts from 'typescript'

const K = ts.SyntaxKind

/** Members of these names hold sentences, wherever they are. */
const SENTENCES: ReadonlySet<string> = new Set(['about', 'description', 'summary'])

/** Methods whose argument decides. */
const SEARCHES = /^(?:includes|startsWith|endsWith|indexOf|split|has|get)$/

/** Methods of a log, on what is named so. */
const LOGS = /\blog\.(?:debug|info|warn|error)$/

/**
 * Whether a text is a sentence for people: three words or values with blanks between, one of them in lower case, in a
 * command, in the message of an error or of a log, or in a description. What is compared or searched for decides, and
 * is none.
 * @param isOfCommand whether the file is one of a command, which prints its texts
 */
export function isProse (node: ts.Node, isOfCommand: boolean): boolean {
  let whole = node
  while (isSum(whole.parent)) whole = whole.parent
  const words = textIn(whole).split(' ').filter(Boolean)
  if (words.length < 3 || !words.some(word => /^["'`(]*[a-z]+["'`).,;:]*$/.test(word))) return false
  while (isOnItsWay(whole)) whole = whole.parent
  const { parent } = whole
  if (ts.isNewExpression(parent) && /Error$/.test(parent.expression.getText())) return true
  if (ts.isCallExpression(parent) && LOGS.test(parent.expression.getText())) return true
  if (ts.isPropertyAssignment(parent) && SENTENCES.has(parent.name.getText())) return true
  return isOfCommand && !isDeciding(parent)
}

/** A text, or a sum of texts, with a NUL in place of each value. */
function textIn (node: ts.Node): string {
  if (ts.isStringLiteralLike(node)) return node.text
  if (isSum(node)) return textIn(node.left) + textIn(node.right)
  if (!ts.isTemplateExpression(node)) return '\0'
  return [node.head, ...node.templateSpans.map(({ literal }) => literal)].map(({ text }) => text).join('\0')
}

function isSum (node: ts.Node): node is ts.BinaryExpression {
  return ts.isBinaryExpression(node) && node.operatorToken.kind === K.PlusToken
}

/** Whether a text is the value of what is around it: of a choice, a template, parentheses. */
function isOnItsWay (node: ts.Node) {
  const { parent } = node
  if (ts.isConditionalExpression(parent)) return parent.condition !== node
  return ts.isParenthesizedExpression(parent) || ts.isTemplateSpan(parent) || ts.isTemplateExpression(parent) ||
    isSum(parent) || (ts.isBinaryExpression(parent) && parent.operatorToken.kind === K.QuestionQuestionToken)
}

function isDeciding (parent: ts.Node) {
  return ts.isBinaryExpression(parent) || ts.isCaseClause(parent) ||
    (ts.isCallExpression(parent) && ts.isPropertyAccessExpression(parent.expression) &&
      SEARCHES.test(parent.expression.name.text))
}
