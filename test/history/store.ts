import { readdirSync, rmSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Owner } from '../helpers/owner.ts'
import { startRedis, type RedisServer } from '../helpers/redis.ts'
import { hung, startRelay, toPort } from '../helpers/relay.ts'

/** What a Redis keeps through its own death. */
export type Keeping = 'nothing' | 'everysec' | 'always' | 'replica'

const ARGS: Record<Keeping, string[]> = {
  nothing: [],
  replica: ['--repl-diskless-sync-delay', '0'],
  everysec: ['--appendonly', 'yes', '--appendfsync', 'everysec'],
  always: ['--appendonly', 'yes', '--appendfsync', 'always']
}
const SAMPLE_MS = 50
const LOST_MS = 1000

/** The store of all services, behind an address that stays the same. */
export interface Store {
  keeping: Keeping
  hasOwnClock: boolean
  port: number
  /** How often a server of it was killed. */
  kills: number
  /** How wrong its clock is. */
  aheadSeconds: number
  /** The server that serves now. */
  server (): RedisServer
  /** Kills it and starts it with what it keeps. */
  kill (): Promise<void>
  /** As if the machine had died: the file of `everysec` lacks the last second. */
  killLosing (): Promise<void>
  /** Writes a copy of all. */
  copy (): Promise<void>
  /** Kills it and starts it with the copy. */
  restoreCopy (): Promise<void>
  /** The replica takes over. It has not heard of the last second. */
  promote (lostMs: number): Promise<void>
  setClock (secondsAhead: number): void
}

/** It ends with its owner. */
export async function startStore (t: Owner, keeping: Keeping, hasOwnClock: boolean): Promise<Store> {
  const start = () => startRedis(t, ARGS[keeping], undefined, hasOwnClock)
  let server = await start()
  let replica = keeping === 'replica' ? await start() : undefined
  const folderOf = async ({ command }: RedisServer) =>
    (await command('CONFIG', 'GET', 'dir')).split(' ').at(-1)!
  const follow = async (one: RedisServer, other: RedisServer) => {
    await one.command('REPLICAOF', '127.0.0.1', String(other.port))
  }
  const folders = new Map<RedisServer, string>()
  for (const one of replica ? [server, replica] : [server]) folders.set(one, await folderOf(one))
  if (replica) await follow(replica, server)
  const relay = await startRelay(t)
  await relay.use(toPort(server.port))
  /** Without a copy that was written before, or sent by a master. */
  async function startAnew (one: RedisServer) {
    rmSync(join(folders.get(one)!, 'dump.rdb'), { force: true })
    await one.start(ARGS[keeping])
  }

  /** The sizes of the file of the last second. */
  let sizes: number[] = []
  const fileOf = () => {
    const dir = join(folders.get(server)!, 'appendonlydir')
    return join(dir, readdirSync(dir).filter(name => name.endsWith('.incr.aof')).sort().at(-1)!)
  }
  if (keeping === 'everysec') {
    const sampling = setInterval(() => {
      try {
        sizes = [...sizes, statSync(fileOf()).size].slice(-LOST_MS / SAMPLE_MS)
      } catch {}
    }, SAMPLE_MS)
    t.teardown(() => clearInterval(sampling))
  }

  const store: Store = {
    keeping,
    hasOwnClock,
    port: relay.port,
    kills: 0,
    aheadSeconds: 0,
    server: () => server,
    async kill () {
      store.kills++
      await server.kill()
      await startAnew(server)
    },
    async killLosing () {
      store.kills++
      await server.kill()
      truncateSync(fileOf(), Math.min(sizes[0]!, statSync(fileOf()).size))
      await server.start()
    },
    async copy () {
      await server.command('SAVE')
    },
    async restoreCopy () {
      store.kills++
      await server.kill()
      await server.start()
    },
    async promote (lostMs) {
      store.kills++
      const next = replica!
      while (await server.command('WAIT', '1', '100') !== '1') await delay(20)
      await next.command('REPLICAOF', 'NO', 'ONE')
      await delay(lostMs)
      await server.kill()
      await relay.use(hung)
      await relay.use(toPort(next.port))
      replica = server
      server = next
      await startAnew(replica)
      await follow(replica, server)
    },
    setClock (secondsAhead) {
      store.aheadSeconds = secondsAhead
      server.setClock(secondsAhead)
      replica?.setClock(secondsAhead)
    }
  }
  return store
}
