import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The top of the clone: these tools run from their source and from their compiled form below it. */
export const root = findRoot(dirname(fileURLToPath(import.meta.url)))

/** Where the tools are compiled to, beside what a running local tenant leaves for them. */
export const buildDir = join(root, '.dev')

const tenantFile = join(buildDir, 'tenant.json')

/** What `npm run dev` tells `npm run call` and `npm run explain`. */
export interface Tenant {
  pid: number
  url: string
  issuer: string
  audience: string
  clientId: string
  clientSecret: string
  /** Those of the API, by their environment names, without the secret ones. */
  settings: Readonly<Record<string, string>>
}

export function writeTenant (tenant: Tenant): void {
  writeFileSync(tenantFile, JSON.stringify(tenant), { mode: 0o600 })
}

/** The tenant that runs, or undefined. */
export function readTenant (): Tenant | undefined {
  try {
    const tenant = JSON.parse(readFileSync(tenantFile, 'utf8')) as Tenant
    process.kill(tenant.pid, 0)
    return tenant
  } catch {
    return undefined
  }
}

/** Leaves alone what a second `npm run dev` wrote meanwhile. */
export function removeTenant (pid: number): void {
  if (readTenant()?.pid === pid) rmSync(tenantFile, { force: true })
}

function findRoot (directory: string): string {
  if (existsSync(join(directory, 'package.json'))) return directory
  const parent = dirname(directory)
  if (parent === directory) throw new Error('there is no package.json above these tools')
  return findRoot(parent)
}
