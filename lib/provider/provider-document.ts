import { isJsonObject } from '../jose/jws.ts'
import type { JsonObject } from '../jose/jws.ts'
import { ProviderFailure } from './provider-failure.ts'
import type { ProviderAnswer } from './transport.ts'

/** UTF-8, as RFC 8259 section 8.1 requires. A byte order mark is dropped. */
const utf8 = new TextDecoder('utf-8', { fatal: true })

/** Returns the object that a document of the provider holds. @throws ProviderFailure `not_json`, or `malformed` for other JSON */
export function parseDocument (body: Uint8Array, malformed: 'discovery_malformed' | 'set_malformed' | 'introspection_malformed'): JsonObject {
  let document: unknown
  try {
    document = JSON.parse(utf8.decode(body))
  } catch {
    throw new ProviderFailure('not_json', undefined, { expected: 'JSON' })
  }
  if (!isJsonObject(document)) throw new ProviderFailure(malformed)
  return document
}

/** Reads the body of an answer with status 200. A failure says what the answer was. @throws ProviderFailure `status`, and those of `read` */
export async function readAnswer<Result> ({ status, body, facts }: ProviderAnswer, read: (body: Buffer) => Result | Promise<Result>): Promise<Result> {
  try {
    if (status !== 200) throw new ProviderFailure('status', status, { expected: '200', found: String(status) })
    return await read(body)
  } catch (error) {
    throw error instanceof ProviderFailure ? error.with(facts) : error
  }
}
