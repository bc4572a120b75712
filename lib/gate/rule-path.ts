import createRouter from 'find-my-way'
import { quoteSetting } from '../base/printable.ts'
import { Refusal } from '../refusal.ts'
import { escapeNonAscii, normalizeEscapes } from '../guard/url/http-url.ts'
import { readTargetPath, refusePath } from '../guard/url/request-url.ts'
import { verifyOneReading, withoutParameters } from './path.ts'

/** A piece of a rule's path, as it is written: fixed text, or what fits many. */
interface PathPart {
  readonly kind: 'fixed' | 'parameter' | 'expression' | 'wildcard'
  /** Of a parameter its name, with the colon before it. */
  readonly text: string
  /** Of a parameter: its expression, and the `?` of a last one that may be missing. */
  readonly rest: string
}

/** A colon that is written twice, a parameter with its expression, or fixed text. */
const PARTS = /::|(:[^/().?-]*)(\((?:[^()]|\([^()]*\))*\))?(\??)|[^:]+/g

/** Reads the path of a rule, in the syntax of the router. */
export function partsOf (path: string): readonly PathPart[] {
  const end: readonly PathPart[] = path.endsWith('*') ? [{ kind: 'wildcard', text: '*', rest: '' }] : []
  return [...path.slice(0, path.length - end.length).matchAll(PARTS)].map((
    [text, name, expression = '', optional = '']
  ): PathPart => {
    if (name === undefined) return { kind: 'fixed', text, rest: '' }
    return { kind: expression === '' ? 'parameter' : 'expression', text: name, rest: expression + optional }
  }).concat(end)
}

/** Whether a path has parts that fit many: only beside such a rule may another be more specific. */
export function isWide (path: string): boolean {
  return partsOf(path).some(({ kind }) => kind !== 'fixed')
}

/**
 * The path of a rule as the router gets it. The router decodes escapes. But a rule is chosen by the normal form of the
 * path, which is also what a proof is compared with. So the router gets paths in normal form without any escape that it
 * knows.
 */
export function routerForm (path: string): string {
  return partsOf(path).map(({ kind, text, rest }) => kind === 'fixed' ? normalForm(text) : text + rest).join('')
}

/** The same for two paths that differ only in the names of their parameters. */
export function shapeOf (path: string): string {
  return partsOf(path).map(({ kind, text, rest }) => kind === 'fixed' ? normalForm(text) : `:${kind}${rest}`).join('')
}

function normalForm (text: string): string {
  return withoutEscapes(normalizeEscapes(escapeNonAscii(text)!)!)
}

/** A path in normal form, with a character for `%` that no path has. */
function withoutEscapes (path: string): string {
  return path.replaceAll('%', '\u0001')
}

const ROUTER_PATH = 'a path in the syntax of the router, such as /orders/:id or /orders/*'

/** What is wrong with the path of a rule, to be put after its name, or undefined if it can be used. */
export function problemOfPath (path: unknown): string | undefined {
  if (path === undefined) return ' has no path'
  const held = ` is ${quoteSetting(path)}`
  if (typeof path !== 'string' || !path.startsWith('/')) return `${held}; allowed: ${ROUTER_PATH}`
  const plain = partsOf(path).map(({ text }) => text).join('')
  if (plain.includes('?')) {
    return `${held}, which is unreachable: a rule is chosen by the path, and the query is no part of it`
  }
  try {
    const read = readTargetPath(escapeNonAscii(plain) ?? '%')
    verifyOneReading(read)
    // Without the parameter, no such path belongs to this rule.
    if (withoutParameters(read).length > 0) refusePath('path_parameter')
    // Only the last parameter may be missing. Behind other text than a slash the router takes the sign for a part of
    // the name, and before a slash at the end for two paths.
    const isMissingInside = partsOf(path).slice(0, -1).some(({ rest }) => rest.endsWith('?'))
    if (!isMissingInside && createPathRouter().add('GET', path, undefined)) return undefined
  } catch (error) {
    if (error instanceof Refusal) {
      return `${held}, which is unreachable: such paths are refused before any rule (${error.detail!.cause})`
    }
  }
  return `${held}, which the router cannot read; allowed: ${ROUTER_PATH}`
}

/** Finds what belongs to the most specific of the paths that fit. */
interface PathRouter<Store> {
  /** False if the router cannot read the path, or takes it for one that it has for this method. */
  add (method: string, path: string, store: Store): boolean
  /** @param path in normal form */
  find (method: string, path: string): Store | undefined
}

/** No limit is needed for a parameter: Node limits the whole target. */
const ROUTER_OPTIONS = {
  ignoreTrailingSlash: false,
  ignoreDuplicateSlashes: false,
  useSemicolonDelimiter: false,
  maxParamLength: Number.MAX_SAFE_INTEGER
}

/** Makes a router that has no paths yet. */
export function createPathRouter<Store> (): PathRouter<Store> {
  const { add, find } = createTextRouter<Store>({ caseSensitive: true })
  return {
    add: (method, path, store) => add(method, routerForm(path), store),
    find: (method, path) => find(method, withoutEscapes(path))
  }
}

/** The router itself, which gets paths in a form of their own, without `%`, `?` and `#`. */
export function createTextRouter<Store> (options: { readonly caseSensitive: boolean }): PathRouter<Store> {
  const router = createRouter({ ...ROUTER_OPTIONS, ...options })
  return {
    add (method, path, store) {
      try {
        router.on(method as 'GET', path, neverCalled, store)
        return true
      } catch {
        return false
      }
    },
    find: (method, path) => router.find(method as 'GET', path)?.store as Store | undefined
  }
}

const neverCalled = Function.prototype as () => void

/** Whether the router takes two paths for one. */
export function isSamePath (a: string, b: string): boolean {
  if (a === b) return true
  const router = createPathRouter()
  router.add('GET', a, undefined)
  return !router.add('GET', b, undefined)
}
