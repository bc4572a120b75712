import createRouter from 'find-my-way'
import { quoteSetting } from '../printable.ts'
import { Refusal } from '../refusal.ts'
import { escapeNonAscii, readTargetPath } from '../url/path.ts'
import { verifyOneReading, withoutParameters } from './path.ts'

/** Parts of a path that the router reads, and that stand for text of the request: a parameter with a regular expression. */
const EXPRESSION = /\((?:[^()]|\([^()]*\))*\)/g

/** Without the `?` of a last parameter that may be missing. */
function withoutOptional (path: string): string {
  return path.endsWith('?') && path.lastIndexOf(':') > path.lastIndexOf('/') ? path.slice(0, -1) : path
}

/** What is wrong with the path of a rule, to be put after its name. Undefined if it can be used. */
export function problemOfPath (path: unknown): string | undefined {
  if (path === undefined) return ' has no path'
  const held = ` is ${quoteSetting(path)}`
  if (typeof path !== 'string' || !path.startsWith('/')) return `${held}; allowed: ${ROUTER_PATH}`
  const plain = withoutOptional(path.replace(EXPRESSION, ''))
  if (plain.includes('?')) return `${held}, which is unreachable: a rule is chosen by the path, and the query is no part of it`
  try {
    const read = readTargetPath(escapeNonAscii(plain) ?? '%')
    verifyOneReading(read)
    // Without the parameter, no such path belongs to this rule.
    if (withoutParameters(read).length > 0) throw new Refusal('target_path', { detail: { cause: 'path_parameter' } })
    createRouter(ROUTER_OPTIONS).on('GET', routerForm(path), noHandler)
    return undefined
  } catch (error) {
    return error instanceof Refusal ? `${held}, which is unreachable: such paths are refused before any rule (${error.detail!.cause})` : `${held}, which the router cannot read; allowed: ${ROUTER_PATH}`
  }
}

const ROUTER_PATH = 'a path in the syntax of the router, such as /orders/:id or /orders/*'

/** No limit is needed for a parameter: Node limits the whole target. */
export const ROUTER_OPTIONS = { caseSensitive: true, ignoreTrailingSlash: false, ignoreDuplicateSlashes: false, useSemicolonDelimiter: false, maxParamLength: Number.MAX_SAFE_INTEGER }

/** Stands for `%`. No path holds it. */
const PERCENT = '\u0001'

/**
 * The router decodes escapes. But a rule is chosen by the normal form of the path, which is also what a proof is compared with. So the
 * router gets paths in normal form without any escape that it knows.
 */
export function routerForm (path: string): string {
  const escaped = escapeNonAscii(path)!
  // The normal form of what is outside of expressions. They are kept as they are.
  const expressions = escaped.match(EXPRESSION) ?? []
  return escaped.split(EXPRESSION).map((plain, index) => `${normalForm(plain)}${expressions[index] ?? ''}`).join('')
}

function normalForm (plain: string): string {
  const optional = plain.endsWith('?')
  return `${forRouter(readTargetPath(optional ? plain.slice(0, -1) : plain))}${optional ? '?' : ''}`
}

/** A path in normal form, as the router gets it. */
export function forRouter (path: string): string {
  return path.replaceAll('%', PERCENT)
}

/** The router wants a handler. Nobody calls it. */
export const noHandler = Function.prototype as () => void

/** The same for two paths that differ only in the names of their parameters. */
export function shapeOf (path: string): string {
  return routerForm(path).replace(/:[A-Za-z0-9_]+/g, ':')
}

/** Whether the router takes two paths for one. */
export function isSamePath (a: string, b: string): boolean {
  const router = createRouter(ROUTER_OPTIONS)
  try {
    router.on('GET', routerForm(a), noHandler)
    router.on('GET', routerForm(b), noHandler)
    return false
  } catch {
    return true
  }
}
