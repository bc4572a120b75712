/**
 * Here get-jwks reads keys that the service has fetched already: the package finds each RSA key by `kid` and `alg`, and
 * turns it into PEM. Keys on curves become PEM by node:crypto: the package does not know Ed25519, and it checks a point
 * in JavaScript, which takes about 100 ms. A set of 100 such keys would stop the process for 10 s.
 *
 * The package is kept from the network and from the provider's own set. Its fetch has no deadline and no limit, and it
 * asks the provider again for each `kid`. Its look-up takes the first entry with a `kid`, whatever the `use` of that
 * entry, and it crashes on an entry that is null. So transport.ts fetches, and the package reads `data:` URLs of sets
 * that hold one usable key each.
 */

import { createRequire } from 'node:module'
import { readPemByCrypto, type PemReader } from '../../lib/guard/provider/fetch-key-set.ts'

const require = createRequire(import.meta.url)
/**
 * The package is loaded at the first fetch, as in transport.ts. Each use has a reader of its own, so that nothing is
 * read from a cache.
 */
const createReader = (): ReturnType<typeof import('get-jwks')> => require('get-jwks')()

export const readPemByPackage: PemReader = (key, alg) => {
  if (key.asymmetricKeyType !== 'rsa') return readPemByCrypto(key, alg)
  const kid = '0'
  const set = JSON.stringify({ keys: [{ ...key.export({ format: 'jwk' }), alg, kid }] })
  // Under this domain every path is the set: the path becomes a fragment, which is not fetched.
  const domain = `data:application/json;base64,${Buffer.from(set).toString('base64')}#/`
  return createReader().getPublicKey({ domain, alg, kid })
}
