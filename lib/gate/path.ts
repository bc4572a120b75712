import { decodeEscapes } from '../guard/url/http-url.ts'
import { refusePath } from '../guard/url/request-url.ts'

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
  // ASP.NET drops it, also from the beginning of a longer one: `/(S(x))/a` is `/a` there.
  ['session_segment', /\/(?:\(|%28)[A-Z](?:\(|%28)/],
  ['slash_escape', /%2F/],
  ['backslash', /%5C/],
  ['control_character', /%(?:[01][0-9A-F]|7F)/]
]

/** Matches every path that has one of the forms above, and nearly no other. */
const SUSPECT = /\/[/.;(]|%/

/**
 * Refuses a path that two parties could read differently, before any rule is chosen.
 * @param path a path in normal form, as `readTargetPath` returns it
 * @throws Refusal target_path, with the `cause` in its detail
 */
export function verifyOneReading (path: string): void {
  if (!SUSPECT.test(path)) return
  for (const [cause, form] of UNCLEAR) if (form.test(path)) refusePath(cause)
  if (decodeEscapes(path) === undefined) refusePath('encoding')
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

/** What a path is for programs to which its first `;` begins the query, such as Fastify 4. Empty if there is none. */
export function beforeSemicolon (path: string): readonly string[] {
  const at = path.indexOf(';')
  return at === -1 ? [] : [path.slice(0, at)]
}

/**
 * The bytes of a request target that go to the upstream: path and query as they came. An absolute-form target loses
 * scheme and authority (RFC 9112 section 3.2.1).
 * @throws Refusal target_path for a fragment or white space, which no target has. Two URLs that were joined have white
 * space between them.
 */
export function originForm (target: string): string {
  const char = /[^\u0021-\u00ff]|#/.exec(target)?.[0]
  if (char !== undefined) refusePath(char === '#' ? 'fragment' : 'control_character')
  if (target.startsWith('/')) return target
  const rest = target.replace(/^https?:\/\/[^/?#]*/i, '')
  return rest.startsWith('/') ? rest : `/${rest}`
}
