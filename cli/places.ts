import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

export const root = join(import.meta.dirname, '..')

const tenantFile = join(root, '.dev', 'tenant.json')

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
  mkdirSync(dirname(tenantFile), { recursive: true })
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
