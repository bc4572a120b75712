import { isJsonObject } from '../jose/jws.ts'
import { ProviderFailure } from './provider-failure.ts'

/** UTF-8, as RFC 8259 section 8.1 requires. A byte order mark is dropped. */
const utf8 = new TextDecoder('utf-8', { fatal: true })

/** Returns the object that a document of the provider holds. Throws ProviderFailure `not_json`, or `malformed` for other JSON. */
export function parseDocument (body: Uint8Array, malformed: 'discovery_malformed' | 'set_malformed' | 'introspection_malformed'): Record<string, unknown> {
  let document: unknown
  try {
    document = JSON.parse(utf8.decode(body))
  } catch {
    throw new ProviderFailure('not_json', undefined, { expected: 'JSON' })
  }
  if (!isJsonObject(document)) throw new ProviderFailure(malformed)
  return document
}
