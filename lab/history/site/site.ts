import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { setTimeout as delay } from 'node:timers/promises'
import { freePort } from '../../../test/helpers/free-port.ts'
import { startInstance, type Environment, type Instance } from '../../../test/helpers/instance.ts'
import { startNginx, type Nginx } from '../../../test/helpers/nginx.ts'
import type { Owner } from '../../../test/helpers/owner.ts'
import { startRedis, type RedisServer } from '../../../test/helpers/redis.ts'
import type { Window } from './ledger.ts'
import { CLIENT, startProvider, type ChaosProvider } from './provider.ts'
import { startTroubled, type TroubledServer } from './troubled-server.ts'
import { control } from './vitals.ts'
import { temporaryFolder } from '../../../test/helpers/temporary-folder.ts'

/** A place where one process after the other serves. */
export interface Member {
  name: string
  instance: Instance
  /** Where preload.js of that process listens. */
  socketPath: string
  /** Nobody is surprised when it ends. */
  isEnding: boolean
  /** Starts a process on the port of the one before, and waits until it is ready. */
  start (): Promise<void>
  untilReady (): Promise<void>
  /** Sets its clock. One that has died meanwhile has left its clock behind. */
  setClock (offsetMs: number): Promise<void>
}

export interface Site {
  /** What clients write in their proofs, and where they connect to. */
  publicUrl: string
  url: string
  gateUrl: string
  provider: ChaosProvider
  redis: RedisServer
  nginx: Nginx
  upstream: TroubledServer
  /** The first one serves from the beginning to the end. */
  instances: readonly [Member, Member, Member]
  gate: Member
  members: readonly Member[]
  /** Times when a process had started and could get no keys. */
  windows: Window[]
  arrived: Array<{ kind: string, id: string }>
  accepted (): string[]
  /** Processes that ended without being stopped. */
  deaths: string[]
}

export const nowMs = (): number => performance.now()

const PRELOAD = pathToFileURL(join(import.meta.dirname, 'preload.js')).href
const PATIENCE_MS = 60_000

/**
 * Three instances behind nginx and a gate before an upstream, with one Redis that has written each record to a file
 * before it answers. They end with their owner.
 */
export async function openSite (t: Owner, directory: string): Promise<Site> {
  const folder = temporaryFolder(t, 'chaos')
  const acceptedFile = join(folder, 'accepted')
  writeFileSync(acceptedFile, '')

  const [provider, redis, sitePort] = await Promise.all([
    startProvider(t),
    // What is written before the answer outlives the process. Only the death of the machine would need fsync.
    startRedis(t, ['--appendonly', 'yes', '--appendfsync', 'no']),
    freePort()
  ])
  const arrived: Site['arrived'] = []
  const upstream = await startTroubled(t, (request, response) => {
    const { searchParams } = new URL(request.url!, 'http://upstream')
    arrived.push({ kind: searchParams.get('kind')!, id: searchParams.get('id')! })
    response.end('{"ok":true}')
  })
  const gateFile = join(folder, 'gate.json')
  writeFileSync(
    gateFile,
    JSON.stringify({ gate: { upstream: upstream.origin, timeoutSeconds: 2, rules: [{ path: '/api/*' }] } })
  )

  const deaths: string[] = []
  const windows: Window[] = []
  let isOver = false
  t.teardown(() => {
    isOver = true
  })
  let started = 0

  async function startMember (name: string, part: 'instance' | 'gate', more: Environment) {
    const port = await freePort()
    const member: Member = {
      name,
      socketPath: '',
      isEnding: false,
      instance: undefined!,
      async start () {
        const startMs = nowMs()
        const wasWell = provider.server.isWell()
        const troubles = provider.server.troubles()
        const socketPath = join(folder, `${++started}.sock`)
        const instance = await startInstance(t, directory, provider, {
          PORT: String(port),
          DPOP_REPLAY: `redis://127.0.0.1:${redis.port}`,
          IDP_INTROSPECTION: 'opaque',
          IDP_INTROSPECTION_CACHE_SECONDS: '1',
          IDP_CLIENT_ID: CLIENT.id,
          IDP_CLIENT_SECRET: CLIENT.secret,
          NODE_OPTIONS: `--import=${PRELOAD}`,
          CHAOS_SOCKET: socketPath,
          CHAOS_ACCEPTED: acceptedFile,
          ...more
        })
        Object.assign(member, { instance, socketPath, isEnding: false })
        instance.ended.then(code => {
          if (member.instance === instance && !member.isEnding && !isOver) {
            deaths.push(`${name} ended with ${code}: ${instance.output().slice(-2000)}`)
          }
        })
        await member.untilReady()
        if (!wasWell || provider.server.troubles() > troubles) {
          windows.push({
            fault: 'the provider is in trouble when a process starts',
            part,
            excuses: ['503'],
            startMs,
            endMs: nowMs()
          })
        }
      },
      async untilReady () {
        const endMs = nowMs() + PATIENCE_MS
        while (true) {
          try {
            await member.instance.untilReady()
            return
          } catch (error) {
            if (nowMs() > endMs) throw error
            await delay(50)
          }
        }
      },
      async setClock (offsetMs) {
        const { instance, socketPath } = member
        while (member.instance === instance && !member.isEnding) {
          if (await control(socketPath, `/?offsetMs=${offsetMs}`).then(() => true, () => false)) return
          await delay(50)
        }
      }
    }
    await member.start()
    return member
  }

  const publicUrl = `http://localhost:${sitePort}`
  const [a, b, c, gate] = await Promise.all([
    ...['a', 'b', 'c'].map(name => startMember(name, 'instance', { PUBLIC_URL: publicUrl })),
    startMember('gate', 'gate', { PUBLIC_URL: 'http://gate.test.example', CONFIG_FILE: gateFile })
  ]) as [Member, Member, Member, Member]
  const addresses = [a, b, c].map(({ instance }) => `127.0.0.1:${instance.port}`)
  const nginx = await startNginx(t, {
    file: 'instances.conf',
    port: sitePort,
    replacements: {
      'listen 80 ': `listen 127.0.0.1:${sitePort} `,
      'localhost:8000 localhost:8000;': `localhost:${sitePort} localhost:${sitePort};`,
      '127.0.0.1:8001': addresses[0]!,
      '127.0.0.1:8002': addresses.slice(1).join(' max_fails=0; server ')
    }
  })
  return {
    publicUrl,
    url: `http://127.0.0.1:${sitePort}`,
    gateUrl: gate.instance.url,
    provider,
    redis,
    nginx,
    upstream,
    instances: [a, b, c],
    gate,
    members: [a, b, c, gate],
    windows,
    arrived,
    accepted: () => readFileSync(acceptedFile, 'utf8').split('\n').filter(Boolean),
    deaths
  }
}
