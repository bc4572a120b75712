import type { JwtTools } from '../../lib/assembly/jwt-tools.ts'
import { createFastifyJwtFinder, loadFastifyJwt } from './fastify-jwt.ts'
import { readPemByPackage } from './get-jwks.ts'

/** The packages of the service. The npm package for other apps does without them. */
export const JWT_PACKAGES: JwtTools = {
  createSignerFinder: createFastifyJwtFinder,
  readPem: readPemByPackage,
  load: loadFastifyJwt
}
