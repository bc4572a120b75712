import { METHODS } from 'node:http'
import fc from 'fast-check'
import { anyText } from './any-text.ts'
import type { DpopClient } from './dpop-client.ts'
import type { Issuer, Overrides } from './issuer.ts'
import { encodeJws } from './jws.ts'

/** A request that passes, in the pieces that a mutation may change. */
export interface Good {
  readonly issuer: Issuer
  readonly client: DpopClient
  readonly host: string
  readonly path: string
  readonly token: string
  readonly proof: string
  /** A proof that passes but for the overrides, made anew. */
  remake (token: string, header?: Overrides, claims?: Overrides): string
}

/** What goes over the wire: every line of it. */
export type Lines = readonly string[]

/** One change of one thing, after which a request must not pass. */
export interface Mutation {
  readonly what: string
  readonly value: unknown
  readonly apply: (good: Good) => Lines
}

interface Pieces {
  readonly method?: string
  readonly path?: string
  readonly hosts?: readonly string[]
  readonly authorization?: readonly string[]
  readonly dpop?: readonly string[]
}

/** The lines of the request, with other pieces in place of its own. */
export function linesOf (
  good: Good,
  {
    method = 'GET',
    path = good.path,
    hosts = [good.host],
    authorization = [`DPoP ${good.token}`],
    dpop = [good.proof]
  }: Pieces = {}
): Lines {
  return [
    `${method} ${path} HTTP/1.1`,
    'Connection: close',
    ...hosts.map(host => `Host: ${host}`),
    ...authorization.map(value => `Authorization: ${value}`),
    ...dpop.map(value => `DPoP: ${value}`)
  ]
}

function mutation<Value> (
  what: string,
  values: fc.Arbitrary<Value>,
  apply: (good: Good, value: Value) => Lines
): fc.Arbitrary<Mutation> {
  return values.map(value => ({
    what,
    value,
    apply: good => apply(good, value),
    [fc.toStringMethod]: () => `${what}: ${fc.stringify(value)}`
  }))
}

// One edit of a text. Where it falls is a share of the length, so that a run does not depend on how long a text is.
export interface Edit {
  readonly kind: 'insert' | 'delete' | 'replace'
  readonly at: number
  readonly char: string
}

const among = (chars: string): fc.Arbitrary<string> => fc.constantFrom(...chars)
export const edits = (chars: fc.Arbitrary<string>, ...kinds: ReadonlyArray<Edit['kind']>): fc.Arbitrary<Edit> =>
  fc.record({ kind: fc.constantFrom(...kinds), at: fc.integer({ min: 0, max: 9999 }), char: chars })

/** The edited text, always another one. An insertion is never at an end: HTTP drops white space there. */
export function edited (text: string, { kind, at, char }: Edit): string {
  if (kind === 'insert') {
    const index = 1 + Math.floor(at / 10_000 * (text.length - 1))
    return text.slice(0, index) + char + text.slice(index)
  }
  const index = Math.floor(at / 10_000 * text.length)
  const other = char === text[index] ? (char === 'A' ? 'B' : 'A') : char
  return text.slice(0, index) + (kind === 'delete' ? '' : other) + text.slice(index + 1)
}

const byte = fc.integer({ min: 0, max: 255 }).map(code => String.fromCharCode(code))
const base64url = among('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_')
const jwsEdits = fc.oneof(
  edits(base64url, 'insert', 'delete', 'replace'),
  edits(byte, 'insert'),
  edits(among('.=,~"\\'), 'insert', 'replace')
)
// Neither `?`, after which nothing counts, nor a digit or letter that a percent sign could take for an escape.
const pathEdits = fc.oneof(
  edits(among('abcxyz019-._~!$&\'()*+,;=:@/#\\|<>"{}^`'), 'insert'),
  edits(byte.filter(char => char !== '?' && char !== '%'), 'insert'),
  edits(among('z'), 'delete')
)
// No digit: a port may be written with a zero in front. One byte outside ASCII is no UTF-8, and so no letter.
const hostEdits = edits(byte.filter(char => !/[0-9]/.test(char)), 'insert')

const json = fc.jsonValue({ maxDepth: 3 })
const jsonBut = (isGood: (value: any) => boolean): fc.Arbitrary<unknown> => json.filter(value => !isGood(value))
const isMediaType = (type: string) => (value: unknown): boolean =>
  typeof value === 'string' && value.toLowerCase().replace(/^application\//, '') === type
const isNumber = (value: unknown): boolean => typeof value === 'number'

/** A time that is written when the request is made. */
class FromNow {
  readonly seconds: number

  constructor (seconds: number) {
    this.seconds = seconds
  }
}

const timed = (value: unknown): unknown =>
  value instanceof FromNow ? Math.floor(Date.now() / 1000) + value.seconds : value
const past = fc.integer({ min: -1e9, max: -400 }).map(seconds => new FromNow(seconds))
const future = fc.integer({ min: 400, max: 1e9 }).map(seconds => new FromNow(seconds))
const absent = fc.constant(undefined)
const text = fc.oneof(anyText, fc.constant('__proto__'), fc.constant('constructor'))

/** Values of each member that must not pass, although they are signed by the right key. */
const TOKEN_HEADER: Record<string, fc.Arbitrary<unknown>> = {
  alg: fc.oneof(absent, jsonBut(value => value === 'RS256'), fc.constantFrom('none', 'HS256', 'PS256', 'rs256')),
  typ: jsonBut(value => isMediaType('at+jwt')(value) || String(value).toLowerCase() === 'jwt'),
  kid: fc.oneof(jsonBut(value => value === 'k1'), text.map(name => `k1${name}.`)),
  crit: json,
  b64: json
}
const TOKEN_CLAIMS: Record<string, fc.Arbitrary<unknown>> = {
  iss: fc.oneof(absent, json, text),
  aud: fc.oneof(absent, json, text, fc.array(text)),
  sub: fc.oneof(absent, fc.constant(''), jsonBut(value => typeof value === 'string')),
  exp: fc.oneof(absent, past, jsonBut(isNumber)),
  nbf: fc.oneof(future, jsonBut(isNumber)),
  iat: jsonBut(isNumber),
  cnf: fc.oneof(absent, json, json.map(jkt => ({ jkt })), text.map(jkt => ({ jkt })))
}
const PROOF_HEADER: Record<string, fc.Arbitrary<unknown>> = {
  typ: fc.oneof(absent, jsonBut(isMediaType('dpop+jwt'))),
  alg: fc.oneof(
    absent,
    jsonBut(value => value === 'ES256'),
    fc.constantFrom('none', 'HS256', 'ES384', 'RS256', 'EdDSA', '__proto__')
  ),
  jwk: fc.oneof(absent, json),
  crit: json,
  b64: json
}
const PROOF_CLAIMS: Record<string, fc.Arbitrary<unknown>> = {
  jti: fc.oneof(absent, fc.constant(''), fc.constant('a'.repeat(513)), jsonBut(value => typeof value === 'string')),
  htm: fc.oneof(absent, jsonBut(value => value === 'GET'), fc.constantFrom('get', 'POST', 'GET ', 'HEAD')),
  htu: fc.oneof(absent, json, text),
  ath: fc.oneof(absent, json, text),
  iat: fc.oneof(absent, past, future, jsonBut(isNumber)),
  exp: fc.oneof(past, jsonBut(isNumber)),
  nbf: fc.oneof(future, jsonBut(isNumber))
}
const JWK_MEMBERS = {
  kty: jsonBut(value => value === 'EC'),
  crv: json,
  x: fc.oneof(
    json,
    fc.uint8Array({ minLength: 32, maxLength: 32 }).map(bytes => Buffer.from(bytes).toString('base64url'))
  ),
  y: json,
  d: json,
  k: json,
  oth: json
}

const members = (
  what: string,
  table: Record<string, fc.Arbitrary<unknown>>,
  apply: (good: Good, overrides: Overrides) => Lines
): fc.Arbitrary<Mutation> =>
  fc.oneof(
    ...Object.entries(table).map(([name, values]) =>
      mutation(`${what} ${name}`, values, (good, value) => apply(good, { [name]: timed(value) }))
    )
  )

const withToken = (good: Good, token: string): Lines =>
  linesOf(good, { authorization: [`DPoP ${token}`], dpop: [good.remake(token)] })
const withProof = (good: Good, proof: string): Lines => linesOf(good, { dpop: [proof] })
const bound = ({ client }: Good): Overrides => ({ cnf: { jkt: client.jkt } })

/** Changes of what is signed, signed again by the right key: only the checks decide what passes. */
export const signedMutations: fc.Arbitrary<Mutation> = fc.oneof(
  members('token header', TOKEN_HEADER, (good, header) => withToken(good, good.issuer.token(bound(good), header))),
  members(
    'token claim',
    TOKEN_CLAIMS,
    (good, claims) => withToken(good, good.issuer.token({ ...bound(good), ...claims }))
  ),
  members('proof header', PROOF_HEADER, (good, header) => withProof(good, good.remake(good.token, header))),
  members('proof claim', PROOF_CLAIMS, (good, claims) => withProof(good, good.remake(good.token, {}, claims))),
  members(
    'proof jwk',
    JWK_MEMBERS,
    (good, member) => withProof(good, good.remake(good.token, { jwk: { ...good.client.jwk, ...member } }))
  ),
  mutation(
    'htu edited',
    fc.oneof(edits(among('abcxyz'), 'insert'), edits(among('a'), 'delete')),
    (good, edit) =>
      withProof(good, good.remake(good.token, {}, { htu: edited(`http://${good.host}${good.path}`, edit) }))
  ),
  mutation(
    'any JSON as a token, well signed',
    fc.tuple(json, json),
    (good, [header, payload]) => withToken(good, good.issuer.rawToken(JSON.stringify(header), JSON.stringify(payload)))
  ),
  mutation(
    'any JSON as the claims of a token, well signed',
    json,
    (good, payload) => withToken(good, good.issuer.rawToken('{"alg":"RS256","kid":"k1"}', JSON.stringify(payload)))
  ),
  mutation(
    'any JSON as a proof, well signed',
    fc.tuple(json, json),
    (good, [header, payload]) =>
      withProof(good, encodeJws(JSON.stringify(header), JSON.stringify(payload), good.client.sign))
  ),
  mutation(
    'any bytes as the claims of a proof, well signed',
    fc.uint8Array({ minLength: 1, maxLength: 200 }),
    (good, bytes) => {
      const input = `${good.proof.split('.', 1)[0]}.${Buffer.from(bytes).toString('base64url')}`
      return withProof(good, `${input}.${good.client.sign(Buffer.from(input)).toString('base64url')}`)
    }
  )
)

const segment = fc.oneof(
  fc.uint8Array({ maxLength: 100 }).map(bytes => Buffer.from(bytes).toString('base64url')),
  json.map(value => Buffer.from(JSON.stringify(value)).toString('base64url'))
)
const replaceSegment = (jws: string, index: number, other: string): string =>
  jws.split('.').map((own, at) => at === index ? `${other}${other === own ? 'A' : ''}` : own).join('.')
const bytes = fc.string({ unit: byte, maxLength: 60 })
const anyMethod = fc.oneof(
  fc.constantFrom(...METHODS.filter(method => method !== 'GET' && method !== 'CONNECT')),
  among('gG!ET~0').map(char => `GET${char}`)
)

/** Changes of the text on its way, by someone who has no key. */
export const textMutations: fc.Arbitrary<Mutation> = fc.oneof(
  mutation(
    'token edited',
    jwsEdits,
    (good, edit) => linesOf(good, { authorization: [`DPoP ${edited(good.token, edit)}`] })
  ),
  mutation('proof edited', jwsEdits, (good, edit) => linesOf(good, { dpop: [edited(good.proof, edit)] })),
  mutation(
    'token segment',
    fc.tuple(fc.nat(2), segment),
    (good, [index, other]) => linesOf(good, { authorization: [`DPoP ${replaceSegment(good.token, index, other)}`] })
  ),
  mutation(
    'proof segment',
    fc.tuple(fc.nat(2), segment),
    (good, [index, other]) => linesOf(good, { dpop: [replaceSegment(good.proof, index, other)] })
  ),
  mutation(
    'scheme',
    fc.constantFrom('DPo', 'DPoPP', 'D-PoP', 'Bearer', 'Basic', '', 'DPoP Bearer', '"DPoP"', 'DPoP,'),
    (good, scheme) => linesOf(good, { authorization: [`${scheme} ${good.token}`] })
  ),
  mutation('Authorization of any bytes', bytes, (good, value) => linesOf(good, { authorization: [value] })),
  mutation('DPoP of any bytes', bytes, (good, value) => linesOf(good, { dpop: [value] })),
  mutation(
    'two tokens',
    fc.boolean(),
    (good, joined) =>
      linesOf(good, {
        authorization: joined
          ? [`DPoP ${good.token}, DPoP ${good.token}`]
          : [`DPoP ${good.token}`, `DPoP ${good.token}`]
      })
  ),
  mutation(
    'two proofs',
    fc.boolean(),
    (good, joined) => linesOf(good, { dpop: joined ? [`${good.proof}, ${good.proof}`] : [good.proof, good.proof] })
  ),
  mutation(
    'a header left out',
    fc.boolean(),
    (good, isToken) => linesOf(good, isToken ? { authorization: [] } : { dpop: [] })
  ),
  mutation('path', pathEdits, (good, edit) => linesOf(good, { path: edited(good.path, edit) })),
  mutation('host', hostEdits, (good, edit) => linesOf(good, { hosts: [edited(good.host, edit)] })),
  mutation('two hosts', fc.constant(2), good => linesOf(good, { hosts: [good.host, good.host] })),
  mutation('method', anyMethod, (good, method) => linesOf(good, { method })),
  mutation(
    'any bytes as a header line',
    bytes,
    (good, noise) => linesOf(good, { dpop: [`${good.proof}\r\nDPoP: ${noise}`] })
  )
)
