import { createSecureContext } from 'node:tls'
import { SettingsError } from '../../base/settings-error.ts'
import { readPlace } from '../../base/secret-place.ts'
import type { Surroundings } from '../../base/surroundings.ts'
import { hostsOf, parseRedisUrl, TLS_FILES, type RedisPlace, type RedisTarget } from './redis-url.ts'
import type { LinkListeners } from './redis-link.ts'

const MAX_FILE_BYTES = 1024 * 1024

/**
 * Loads the Redis client, which is a package of its own. Nothing is connected yet. `hosts` is for people.
 * @param setting the one that holds the URL, for people
 * @throws SettingsError if a file cannot be used, or if the client is not installed. Its message holds nothing of a
 * file.
 */
export async function reachRedis (
  place: RedisPlace,
  setting: string,
  surroundings: Pick<Surroundings, 'steadyMs' | 'readFile' | 'environment'>,
  load: () => Promise<Pick<typeof import('./redis-link.ts'), 'openRedisLink'>> = () => import('./redis-link.ts')
) {
  const target = { ...parseRedisUrl(place), files: await readFiles(place, setting, surroundings) }
  const { openRedisLink } = await load().catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ERR_MODULE_NOT_FOUND' && error.code !== 'MODULE_NOT_FOUND') throw error
    throw new SettingsError([`${setting} names a Redis, and the package ioredis is not installed: npm i ioredis`])
  })
  return {
    hosts: hostsOf(target),
    open: (listeners: LinkListeners) => openRedisLink(target, listeners, surroundings.steadyMs)
  }
}

async function readFiles (
  place: RedisPlace,
  setting: string,
  surroundings: Pick<Surroundings, 'readFile' | 'environment'>
): Promise<RedisTarget['files']> {
  if (typeof place === 'string') return {}
  if (!place.cert !== !place.key) throw new SettingsError([`${setting} has one of cert and key: they belong together`])
  try {
    const files = Object.fromEntries(
      await Promise.all(
        TLS_FILES.filter(name => place[name]).map(async name =>
          [name, await readPlace(place[name]!, MAX_FILE_BYTES, surroundings)] as const
        )
      )
    )
    createSecureContext(files)
    // It takes any text for a ca.
    if (files.ca?.includes('-----BEGIN CERTIFICATE-----') === false) throw new Error('ca holds no certificate')
    return files
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    throw new SettingsError([
      `${setting} has a cert, key or ca that is not usable (${code ?? message}); allowed: { file: PATH } of PEM`
    ])
  }
}
