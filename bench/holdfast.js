import { hasRedis, holdfast, startRedis, startServer } from './processes.js'

/** The settings of Holdfast in a run: those of the provider, no line for a request, everything else as shipped. */
const settings = (bench, env) => ({
  IDP_DOMAIN: '',
  IDP_ISSUER: bench.provider.issuer,
  IDP_AUDIENCE: bench.audience,
  LOG_LEVEL: 'warn',
  ...env
})

/** The service as shipped, on the server's core; null, and a word about it, where something it needs is missing. */
export const startHoldfast = async (bench, name, { env, redis = false } = {}) => {
  const command = holdfast()
  if (command === null) return bench.skip(name, 'Holdfast is not built')
  if (redis && !hasRedis()) return bench.skip(name, 'redis-server is not installed')
  const store = redis ? await startRedis() : undefined
  if (store) bench.cleanUp(store.stop)
  const server = await startServer(command, settings(bench, { ...env, ...(store && { DPOP_REPLAY: store.url }) }))
  bench.cleanUp(server.stop)
  return server
}
