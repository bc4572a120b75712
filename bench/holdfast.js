import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { hasRedis, holdfast, startRedis, startServer } from './processes.js'
import { AUDIENCE } from './provider.js'

/** The settings of Holdfast in a run: those of the provider, no line for a request, everything else as shipped. */
export const settingsFor = (provider, env) => ({
  IDP_DOMAIN: '',
  IDP_ISSUER: provider.issuer,
  IDP_AUDIENCE: AUDIENCE,
  LOG_LEVEL: 'warn',
  ...env
})

/** Writes a file for one run. Returns its path. */
export const keep = (name, text) => {
  const path = join(mkdtempSync(join(tmpdir(), 'holdfast-bench-')), name)
  writeFileSync(path, text)
  return path
}

/** The service as shipped, on the server's core; null, and a word about it, where something it needs is missing. */
export const startHoldfast = async (bench, name, { env, config, probe, redis = false, audit = false } = {}) => {
  const command = holdfast()
  if (command === null) return bench.skip(name, 'Holdfast is not built')
  if (redis && !hasRedis()) return bench.skip(name, 'redis-server is not installed')
  const store = redis ? await startRedis() : undefined
  if (store) bench.cleanUp(store.stop)
  const folder = audit && mkdtempSync(join(tmpdir(), 'holdfast-bench-'))
  if (folder) bench.cleanUp(() => rmSync(folder, { recursive: true }))
  const server = await startServer(
    command,
    settingsFor(bench.provider, {
      ...env,
      ...(folder && { AUDIT: join(folder, 'audit.log') }),
      ...(config && { CONFIG_FILE: keep('config.json', JSON.stringify(config)) }),
      ...(store && { DPOP_REPLAY: store.url })
    }),
    { probe }
  )
  bench.cleanUp(server.stop)
  return server
}
