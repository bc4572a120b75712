import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { hasRedis, holdfast, startRedis, startServer } from './processes.js'

/** The settings of Holdfast in a run: those of the provider, no line for a request, everything else as shipped. */
const settings = (bench, env) => ({
  IDP_DOMAIN: '',
  IDP_ISSUER: bench.provider.issuer,
  IDP_AUDIENCE: bench.audience,
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
    settings(bench, {
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
