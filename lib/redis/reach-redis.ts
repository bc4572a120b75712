import { hostsOf, parseRedisUrl } from './redis-url.ts'
import type { LinkListeners, RedisLink } from './redis-link.ts'

/** A Redis that the settings name. */
export interface ReachableRedis {
  /** `host:port` of each server, for people. */
  readonly hosts: readonly string[]
  readonly open: (listeners: LinkListeners) => RedisLink
}

/**
 * Loads the Redis client, which is a package of its own. Nothing is connected yet.
 * @param setting the one that holds the URL, for people
 * @throws Error if the URL cannot be used, or if the client is not installed. Its message holds no part of the URL
 * except the names of parameters.
 */
export async function reachRedis (
  url: string,
  setting: string,
  steadyMs: () => number,
  load: () => Promise<Pick<typeof import('./redis-link.ts'), 'openRedisLink'>> = () => import('./redis-link.ts')
): Promise<ReachableRedis> {
  const target = parseRedisUrl(url)
  const { openRedisLink } = await load().catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ERR_MODULE_NOT_FOUND' && error.code !== 'MODULE_NOT_FOUND') throw error
    throw new Error(`${setting} names a Redis, and the package ioredis is not installed: npm i ioredis`)
  })
  return { hosts: hostsOf(target), open: listeners => openRedisLink(target, listeners, steadyMs) }
}
