import createRouter from 'find-my-way'
import { quoteSetting } from '../printable.ts'
import { Refusal } from '../refusal.ts'
import { decodeEscapes, escapeNonAscii } from '../url/http-url.ts'
import { readTargetPath } from '../url/request-url.ts'

/**
 * What two parties could read in two ways, although it stands in the normal form of a path (RFC 3986 section 6.2.2).
 * Some servers drop what follows a `;` in a segment, and then resolve `..`. Some merge slashes. Some decode `%2F`,
 * `%5C` or a control character.
 */
const UNCLEAR: ReadonlyArray<readonly [cause: string, form: RegExp]> = [
  ['double_slash', /\/\//],
  ['dot_segment', /\/\.{1,2}(?:;|%3B)/],
  // Without its parameters, such a segment is empty.
  ['path_parameter', /\/(?:;|%3B)/],
  ['slash_escape', /%2F/],
  ['backslash', /%5C/],
  ['control_character', /%(?:[01][0-9A-F]|7F)/]
]

/** Matches every path that has one of the forms above, and nearly no other. */
const SUSPECT = /\/\/|\/\.|\/;|%/

/**
 * Refuses a path that two parties could read differently, before any rule is chosen.
 * @param path a path in normal form, as `readTargetPath` returns it
 * @throws Refusal target_path, with the `cause` in its detail
 */
export function verifyOneReading (path: string): void {
  if (!SUSPECT.test(path)) return
  for (const [cause, form] of UNCLEAR) if (form.test(path)) throw new Refusal('target_path', { detail: { cause } })
  if (decodeEscapes(path) === undefined) throw new Refusal('target_path', { detail: { cause: 'encoding' } })
}

/** What a program may take for a parameter of a segment. Some decode the path first, so that `%3B` begins one too. */
const PARAMETER_STARTS: ReadonlyArray<string | RegExp> = [';', /;|%3B/]

/**
 * What a path is for programs that drop parameters, which begin with `;` and end with the segment (RFC 3986 section
 * 3.3). Java's servlets have them. Empty if there are none.
 * @param path a path in normal form, without a segment that is only a parameter
 */
export function withoutParameters (path: string): readonly string[] {
  if (!/;|%3B/.test(path)) return []
  return PARAMETER_STARTS.map(start => path.split('/').map(segment => segment.split(start, 1)[0]!).join('/'))
}

/**
 * The bytes of a request target that go to the upstream: path and query as they came. An absolute-form target loses
 * scheme and authority (RFC 9112 section 3.2.1).
 * @throws Refusal target_path for a fragment or white space, which no target has. Two URLs that were joined have white
 * space between them.
 */
export function originForm (target: string): string {
  const char = /[^\u0021-\u00ff]|#/.exec(target)?.[0]
  if (char !== undefined) {
    throw new Refusal('target_path', { detail: { cause: char === '#' ? 'fragment' : 'control_character' } })
  }
  if (target.startsWith('/')) return target
  const rest = target.replace(/^https?:\/\/[^/?#]*/i, '')
  return rest.startsWith('/') ? rest : `/${rest}`
}

/** The regular expression of a parameter. */
const EXPRESSION = /\((?:[^()]|\([^()]*\))*\)/g

/** Without the `?` of a last parameter that may be missing. */
function withoutOptional (path: string): string {
  return path.endsWith('?') && path.lastIndexOf(':') > path.lastIndexOf('/') ? path.slice(0, -1) : path
}

const ROUTER_PATH = 'a path in the syntax of the router, such as /orders/:id or /orders/*'

/** What is wrong with the path of a rule, to be put after its name. Undefined if it can be used. */
export function problemOfPath (path: unknown): string | undefined {
  if (path === undefined) return ' has no path'
  const held = ` is ${quoteSetting(path)}`
  if (typeof path !== 'string' || !path.startsWith('/')) return `${held}; allowed: ${ROUTER_PATH}`
  const plain = withoutOptional(path.replace(EXPRESSION, ''))
  if (plain.includes('?')) {
    return `${held}, which is unreachable: a rule is chosen by the path, and the query is no part of it`
  }
  try {
    const read = readTargetPath(escapeNonAscii(plain) ?? '%')
    verifyOneReading(read)
    // Without the parameter, no such path belongs to this rule.
    if (withoutParameters(read).length > 0) throw new Refusal('target_path', { detail: { cause: 'path_parameter' } })
    if (createPathRouter().add('GET', path, undefined)) return undefined
  } catch (error) {
    if (error instanceof Refusal) {
      return `${held}, which is unreachable: such paths are refused before any rule (${error.detail!.cause})`
    }
  }
  return `${held}, which the router cannot read; allowed: ${ROUTER_PATH}`
}

/** Finds what belongs to the most specific of the paths that fit. */
export interface PathRouter<Store> {
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

/**
 * The router decodes escapes. But a rule is chosen by the normal form of the path, which is also what a proof is
 * compared with. So the router gets paths in normal form without any escape that it knows.
 */
export function routerForm (path: string): string {
  const escaped = escapeNonAscii(path)!
  // Expressions are kept as they are.
  const expressions = escaped.match(EXPRESSION) ?? []
  return escaped.split(EXPRESSION)
    .map((plain, index) =>
      `${withoutEscapes(readTargetPath(plain))}${plain.endsWith('?') ? '?' : ''}${expressions[index] ?? ''}`
    )
    .join('')
}

/** A path in normal form, with a character for `%` that no path has. */
function withoutEscapes (path: string): string {
  return path.replaceAll('%', '\u0001')
}

/** The same for two paths that differ only in the names of their parameters. */
export function shapeOf (path: string): string {
  return routerForm(path).replace(/:[A-Za-z0-9_]+/g, ':')
}

/** Whether the router takes two paths for one. */
export function isSamePath (a: string, b: string): boolean {
  const router = createPathRouter()
  router.add('GET', a, undefined)
  return !router.add('GET', b, undefined)
}
