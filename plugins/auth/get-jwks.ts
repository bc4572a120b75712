/**
 * Here get-jwks reads documents that the service has fetched already. The package reads `jwks_uri` from the discovery
 * document, finds each RSA key by `kid` and `alg`, and turns the key into PEM. Keys on curves become PEM by
 * node:crypto: the package does not know Ed25519, and it checks a point in JavaScript, which takes about 100 ms. A set
 * of 100 such keys would stop the process for 10 s.
 *
 * The package is kept from the network and from the provider's own set. Its fetch has no deadline and no limit, and it
 * asks the provider again for each `kid`. Its look-up takes the first entry with a `kid`, whatever the `use` of that
 * entry, and it crashes on an entry that is null. So transport.ts fetches, and the package reads `data:` URLs: of the
 * `jwks_uri`, and of sets that hold one usable key each.
 */

import { createRequire } from 'node:module'
import { NODE_KEY_READER, type KeyReader } from '../../lib/guard/provider/fetch-key-set.ts'

const require = createRequire(import.meta.url)
/**
 * The package is loaded at the first fetch, as in transport.ts. Each use has a reader of its own, so that nothing is
 * read from a cache.
 */
const createReader = (): ReturnType<typeof import('get-jwks')> => require('get-jwks')()

/** A domain for get-jwks under which every path is the document: the path becomes a fragment, which is not fetched. */
function domainOf (document: object): string {
  return `data:application/json;base64,${Buffer.from(JSON.stringify(document)).toString('base64')}#/`
}

export const GET_JWKS_READER: KeyReader = {
  readPem (key, alg) {
    if (key.asymmetricKeyType !== 'rsa') return NODE_KEY_READER.readPem(key, alg)
    const kid = '0'
    const domain = domainOf({ keys: [{ ...key.export({ format: 'jwk' }), alg, kid }] })
    return createReader().getPublicKey({ domain, alg, kid })
  },
  // The rest of the document is left out, because JSON.stringify throws on a deeply nested document.
  readJwksUri: named => createReader().getJwksUri(domainOf({ jwks_uri: named }))
}
