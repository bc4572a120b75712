import { isJsonObject, type JsonObject } from '../../base/json.ts'
import { printable } from '../../base/printable.ts'
import { ProviderFailure } from './provider-failure.ts'
import { parseIssuer, withoutTrailingSlash } from './provider-url.ts'
import type { ProviderAnswer, ProviderSession } from './transport.ts'

/** UTF-8, as RFC 8259 section 8.1 requires. A byte order mark is dropped. */
const utf8 = new TextDecoder('utf-8', { fatal: true })

/**
 * Returns the object that a document of the provider holds. @throws ProviderFailure `not_json`, or `malformed` for
 * other JSON
 */
export function parseDocument (
  body: Uint8Array,
  malformed: 'discovery_malformed' | 'set_malformed' | 'introspection_malformed'
): JsonObject {
  let document: unknown
  try {
    document = JSON.parse(utf8.decode(body))
  } catch {
    throw new ProviderFailure('not_json', undefined, { expected: 'JSON' })
  }
  if (!isJsonObject(document)) throw new ProviderFailure(malformed)
  return document
}

/**
 * Reads the body of an answer with status 200. A failure says what the answer was. @throws ProviderFailure `status`,
 * and those of `read`
 */
export async function readAnswer<Result> (
  { status, body, facts }: ProviderAnswer,
  read: (body: Buffer) => Result | Promise<Result>
): Promise<Result> {
  try {
    if (status !== 200) throw new ProviderFailure('status', status, { expected: '200', found: String(status) })
    return await read(body)
  } catch (error) {
    throw error instanceof ProviderFailure ? error.with(facts) : error
  }
}

/** The metadata of an issuer, as it publishes them. */
export type Discovery = ReturnType<typeof createDiscovery>

/**
 * Compares the issuer that a document names with the one of the settings: a document does not choose who it speaks for.
 * A last slash makes no difference.
 * @throws ProviderFailure discovery_issuer
 */
export function verifyNamedIssuer (named: unknown, issuer: string): void {
  if (typeof named !== 'string' || withoutTrailingSlash(named) !== withoutTrailingSlash(issuer)) {
    throw new ProviderFailure('discovery_issuer', undefined, { expected: issuer, found: printable(String(named)) })
  }
}

/**
 * @param issuer as it is set
 * @param onSpelling called when a document spells it in another way than before
 */
export function createDiscovery (issuer: string, onSpelling: (spelled: string) => void = () => {}) {
  let spelling = issuer

  function readIssuer (body: Uint8Array) {
    const document = parseDocument(body, 'discovery_malformed')
    if (typeof document.issuer !== 'string') {
      throw new ProviderFailure('discovery_malformed', undefined, { expected: 'issuer as a text' })
    }
    verifyNamedIssuer(document.issuer, issuer)
    if (document.issuer !== spelling) onSpelling(document.issuer)
    spelling = document.issuer
    return document
  }

  return {
    /**
     * Fetches the document of the issuer and reads what is wanted from it. Returns undefined if there is none. A
     * document that names another issuer, except for a trailing slash, is not used (OpenID Connect Discovery 1.0
     * section 4.3, RFC 8414 section 3.3).
     * @throws ProviderFailure, TypeError for an issuer whose documents may not be fetched
     */
    async read<T> (session: ProviderSession, read: (document: JsonObject) => T | Promise<T>): Promise<T | undefined> {
      for (const url of documentUrls(parseIssuer(issuer))) {
        const answer = await session.send(url)
        if (answer.status !== 404) return readAnswer(answer, body => read(readIssuer(body)))
      }
      return undefined
    },
    /** The issuer as its last document spells it, or as it is set if none was read. */
    spelling: () => spelling
  }
}

/**
 * Where the document of an issuer may be, in the order in which it is sought: OpenID Connect Discovery 1.0 section 4,
 * then RFC 8414, whose name goes between host and path (section 3), and which some providers append all the same
 * (section 5).
 * @param base the issuer with a slash at its end
 */
export function documentUrls (base: string): ReadonlySet<string> {
  const { origin, pathname } = new URL(base)
  const name = '.well-known/oauth-authorization-server'
  return new Set([
    `${base}.well-known/openid-configuration`,
    `${origin}/${name}${withoutTrailingSlash(pathname)}`,
    `${base}${name}`
  ])
}
