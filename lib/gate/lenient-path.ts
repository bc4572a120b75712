import { decodeEscapes, escapeNonAscii } from '../guard/url/http-url.ts'
import { createTextRouter, partsOf } from './rule-path.ts'

/**
 * What a path means to a program that decodes it. Signs that the router would read as its own become others, which no
 * path has.
 */
function decoded (path: string): string {
  // Most paths: 200 to 400 ns less.
  if (!/[^A-Za-z0-9._~/-]/.test(path)) return path
  // Letters whose other case is in ASCII. The router itself only writes lower case.
  return decodeEscapes(path)!.replace(
    /[%?#*\u017f\u0130\u0131]/g,
    char => char === '\u017f' ? 's' : char > '\u0100' ? 'i' : String.fromCharCode(0xe000 + char.charCodeAt(0))
  )
}

/** Fixed text of a rule's path, to such a program. */
function decodedPart (text: string): string {
  return text === '::' ? ':' : decoded(escapeNonAscii(text)!)
}

/** The path of a rule as the lenient router gets it. */
function lenientForm (path: string): string {
  let isBehindParameter = false
  return partsOf(path).map(({ kind, text, rest }, index) => {
    if (kind !== 'fixed') {
      isBehindParameter = true
      return text + rest
    }
    const fixed = decodedPart(text).replaceAll(':', '::')
    const slash = fixed.indexOf('/')
    const end = !isBehindParameter ? 0 : slash === -1 ? fixed.length : slash
    if (slash !== -1) isBehindParameter = false
    return inAnyCase(fixed.slice(0, end), `any${index}x`) + fixed.slice(end)
  }).join('')
}

/** The router compares fixed text behind a parameter, in the same segment, with its case. An expression need not. */
function inAnyCase (text: string, name: string): string {
  return text.replace(
    /\p{L}+/gu,
    (word, at) =>
      `:${name}${at}(${word.replace(/./gu, (letter: string) => `[${letter.toLowerCase()}${letter.toUpperCase()}]`)})`
  )
}

/**
 * The readings of a path for programs that take what follows a point for the wanted format: Rails drops the last suffix
 * (`/orders.json`), others all from the first point on. A name may begin with a point.
 */
function readingsOf (text: string): readonly string[] {
  // Before a slash at the end.
  const first = text.indexOf('.', text.lastIndexOf('/', text.length - 2) + 2)
  return first === -1 ? [text] : [text, text.slice(0, text.lastIndexOf('.')), text.slice(0, first)]
}

/**
 * Makes a router that finds what the most lenient one would: it decodes escapes, takes letters of any case for the
 * same, and a suffix or a slash at the end for none. Of two paths that it takes for one, it knows the first.
 */
export function createLenientRouter<Store> () {
  const router = createTextRouter<Store>({ caseSensitive: false })
  return {
    add (method: string, path: string, store: Store) {
      router.add(method, lenientForm(path), store)
    },
    /**
     * What it finds for a path in normal form, with a slash at its end left out or added, and for the same without its
     * last suffix, or all of them.
     */
    find (method: string, path: string): readonly Store[] {
      const found: Store[] = []
      for (const read of readingsOf(decoded(path))) {
        for (const spelling of [read, otherEnd(read)]) {
          const store = router.find(method, spelling)
          if (store !== undefined) found.push(store)
        }
      }
      return found
    }
  }
}

/** The same with a slash at its end, or without it. */
function otherEnd (text: string): string {
  if (text === '/') return text
  return text.endsWith('/') ? text.slice(0, -1) : `${text}/`
}

/** By what stands at one place of two paths, the more specific is the later one here. `end` is the end of a path. */
const ORDER = { wildcard: '0', parameter: '1', expression: '2', slash: '3', end: '4', sign: '5' } as const

/**
 * How specific the path of a rule is, as the router chooses between two that both fit: the text of the more specific
 * one comes later. A slash at the end makes none.
 */
export function specificityOf (path: string): string {
  const parts = partsOf(path).map(({ kind, text }) =>
    kind === 'fixed' ? decodedPart(text).replace(/[^/]/g, ORDER.sign).replaceAll('/', ORDER.slash) : ORDER[kind]
  ).join('')
  return (parts.endsWith(ORDER.slash) ? parts.slice(0, -1) : parts) + ORDER.end
}
