import fc from 'fast-check'
import t from 'tap'
import type { Message } from '../../../../lib/guard/message.ts'
import { Refusal } from '../../../../lib/refusal.ts'
import { verifyHtu, createRequestUrlResolver } from '../../../../lib/guard/url/request-url.ts'
import { parseHttpUrl } from '../../../../lib/guard/url/http-url.ts'
import { anyText } from '../../../helpers/any-text.ts'

const SEED = Number(process.env['FC_SEED'] ?? 9449)
const options = { seed: SEED, numRuns: Number(process.env['FC_RUNS'] ?? 100) }
t.comment(`seed ${SEED}`)

/** The URL of a request, as the service makes it out of Host and target. */
function urlOf (host: string, target: string) {
  const resolve = createRequestUrlResolver({ trustProxy: false, publicUrl: undefined })
  return resolve({ target, headers: {}, host, hostCount: 1, encrypted: false, remoteAddress: undefined } as Message)
}

function reasonOf (act: () => unknown) {
  try {
    act()
    return 'accepted'
  } catch (error) {
    if (error instanceof Refusal) return error.reason
    throw error
  }
}

const among = (chars: string) => fc.constantFrom(...chars)
const UNRESERVED = 'ABCXYZabcxyz0189-_~'
const label = fc.string({ unit: among('abcxyz019'), minLength: 1, maxLength: 8 })
const host = fc.oneof(
  fc.array(label, { minLength: 1, maxLength: 3 }).map(labels => `${labels.join('.')}.example`),
  fc.constant('127.0.0.1'),
  fc.constant('[::1]')
)
const port = fc.oneof(fc.constant(undefined), fc.integer({ min: 1, max: 65535 }))
// No segment is made only of dots: those are resolved, and have a test of their own below.
const segment = fc.string({
  unit: fc.oneof({ weight: 8, arbitrary: among(UNRESERVED) }, {
    weight: 1,
    arbitrary: fc.constantFrom('%2F', '%20', '%C3%A9', '%3F', '!', '$', '&', '(', '+', ',', ';', '=', ':', '@', '%25')
  }),
  maxLength: 6
})
const path = fc.array(segment, { maxLength: 4 }).map(segments => `/${segments.join('/')}`)

/** The same URL in another spelling, as RFC 3986 section 6.2 has it. */
const spelling = fc.record({
  upperHost: fc.boolean(),
  scheme: fc.constantFrom('http', 'HTTP', 'Http'),
  escaped: fc.array(fc.boolean(), { minLength: 40, maxLength: 40 }),
  lowerHex: fc.boolean(),
  dots: fc.constantFrom('', '/.', '/%2e', '/x/..', '/%2E%2e'),
  tail: fc.constantFrom('', '?', '?a=b', '#', '#c', '?a=/../b#c')
})

function respell (
  { upperHost, scheme, escaped, lowerHex, dots, tail }: Record<string, any>,
  host: string,
  port: number | undefined,
  path: string
) {
  const escape = (char: string, at: number) =>
    escaped[at % 40] && UNRESERVED.includes(char) ? `%${char.charCodeAt(0).toString(16).padStart(2, '0')}` : char
  const spelt = path.replace(
    /%..|./g,
    (piece, at) => piece.length > 1 ? (lowerHex ? piece.toLowerCase() : piece) : escape(piece, at)
  )
  const portText = port === undefined || port === 80 ? (upperHost ? ':80' : '') : `:${port}`
  return `${scheme}://${upperHost ? host.toUpperCase() : host}${portText}${dots}${spelt}${tail}`
}

t.test('The normal form of a URL is its own normal form', async t => {
  const url = fc.oneof(
    fc.tuple(spelling, host, port, path).map(([spelt, ...parts]) => respell(spelt, ...parts)),
    // To make it takes a second. `npm run test:programs` has it.
    ...process.env['FC_RUNS'] === undefined ? [] : [fc.webUrl({ withFragments: true, withQueryParameters: true })],
    anyText.map(text => `http://a.example/${text}`)
  )
  let read = 0
  fc.assert(
    fc.property(url, text => {
      const parsed = parseHttpUrl(text)
      if (typeof parsed === 'string') return
      read++
      const again = parseHttpUrl(parsed.href)
      if (JSON.stringify(again) !== JSON.stringify(parsed)) {
        throw new Error(`${JSON.stringify(parsed)} became ${JSON.stringify(again)}`)
      }
    }),
    options
  )
  t.ok(read > options.numRuns / 2)
})

t.test('A URL in any other spelling of RFC 3986 section 6.2 is the same to htu', async t => {
  fc.assert(
    fc.property(spelling, host, port, path, (spelt, host, port, path) => {
      const url = urlOf(port === undefined ? host : `${host}:${port}`, path)
      const htu = respell(spelt, host, port, path)
      verifyHtu(htu, url)
    }),
    options
  )
  t.pass()
})

t.test('A letter more anywhere in scheme, host or path makes it another URL', async t => {
  fc.assert(
    fc.property(host, port, path, fc.nat(9999), among('abcxyz'), (host, port, path, at, letter) => {
      const authority = port === undefined ? host : `${host}:${port}`
      const text = `http://${authority}${path}`
      const index = Math.floor(at / 10_000 * (text.length + 1))
      const reason = reasonOf(() =>
        verifyHtu(text.slice(0, index) + letter + text.slice(index), urlOf(authority, path))
      )
      if (reason !== 'htu_mismatch' && reason !== 'htu_invalid') throw new Error(reason)
    }),
    options
  )
  t.pass()
})

t.test('Any text at all as htu, host or target is compared or refused, and never a fault', async t => {
  const text = fc.oneof(anyText, fc.tuple(host, path).map(parts => `http://${parts.join('')}`), fc.constant('__proto__'))
  const wire = fc.string({
    unit: fc.integer({ min: 0, max: 255 }).map(code => String.fromCharCode(code)),
    maxLength: 40
  })
  const allowed = new Set([
    'accepted',
    'htu_mismatch',
    'htu_invalid',
    'host_invalid',
    'target_path',
    'target_authority'
  ])
  fc.assert(
    fc.property(text, wire, wire, (htu, host, target) => {
      const good = urlOf('api.example', '/api')
      for (
        const act of [
          () => verifyHtu(htu, good),
          () => urlOf(host, '/api'),
          () => urlOf('api.example', target),
          () => urlOf('api.example', `/${target}`)
        ]
      ) {
        const reason = reasonOf(act)
        if (!allowed.has(reason)) throw new Error(reason)
      }
    }),
    options
  )
  t.pass()
})
