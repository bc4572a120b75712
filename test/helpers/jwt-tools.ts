import { NODE_CRYPTO } from '../../lib/assembly/jwt-tools.ts'
import { JWT_PACKAGES } from '../../plugins/auth/jwt-packages.ts'

/** The two pairs that read keys and verify signatures: of the service, and of the npm package. */
export const JWT_TOOLS = { packages: JWT_PACKAGES, 'node:crypto': NODE_CRYPTO } as const

let name: keyof typeof JWT_TOOLS = 'packages'

/** What the apps of `startApp` verify with. */
export const jwtToolsInUse = () => JWT_TOOLS[name]

/** For the apps that are started from now on. */
export function useJwtTools (wanted: keyof typeof JWT_TOOLS) {
  name = wanted
}
