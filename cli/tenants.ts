import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export const root = join(import.meta.dirname, '..')

const folder = join(root, '.dev')
const fileOf = (pid: number) => join(folder, `tenant-${pid}.json`)
const configurationOf = (pid: number) => join(folder, `config-${pid}.json`)

/** What `npm run dev` writes down for the tools. */
export interface Tenant {
  pid: number
  url: string
  issuer: string
  audience: string
  clientId: string
  clientSecret: string
  /** Those of the API, by their environment names, without the secret ones. */
  settings: Readonly<Record<string, unknown>>
}

/** Each `npm run dev` has a file of its own, so a second one takes nothing from the first. */
export function writeTenant (tenant: Tenant): void {
  mkdirSync(folder, { recursive: true })
  writeFileSync(fileOf(tenant.pid), JSON.stringify({ startedAt: Date.now(), ...tenant }), { mode: 0o600 })
}

/** Writes a configuration file. Returns its path. */
export function writeConfiguration (content: object): string {
  mkdirSync(folder, { recursive: true })
  const file = configurationOf(process.pid)
  writeFileSync(file, JSON.stringify(content), { mode: 0o600 })
  return file
}

/** The tenants that run, the oldest first. What a process left that was killed is removed. */
export function readTenants (): Tenant[] {
  const names = tryTo(() => readdirSync(folder)) ?? []
  const found = names.flatMap(name => {
    // Any other name gives NaN, which is no process and has no file.
    const pid = Number(/^tenant-(\d+)\.json$/.exec(name)?.[1])
    if (tryTo(() => process.kill(pid, 0)) === undefined) removeTenant(pid)
    return tryTo(() => JSON.parse(readFileSync(fileOf(pid), 'utf8')) as Tenant & { startedAt: number }) ?? []
  })
  return found.sort((a, b) => a.startedAt - b.startedAt)
}

export function removeTenant (pid: number): void {
  for (const file of [fileOf(pid), configurationOf(pid)]) rmSync(file, { force: true })
}

/** The tenant whose API is at that URL; else the one that has been running for longest. */
export function tenantAt (tenants: readonly Tenant[] = [], url?: string): Tenant | undefined {
  return tenants.find(tenant => isAt(tenant, url)) ?? tenants[0]
}

/** Whether the URL is one of the tenant's API. */
export function isAt (tenant: Tenant, url: string | undefined): boolean {
  return url !== undefined && URL.canParse(url) && new URL(url).origin === new URL(tenant.url).origin
}

function tryTo<Result> (run: () => Result): Result | undefined {
  try {
    return run()
  } catch {
    return undefined
  }
}
