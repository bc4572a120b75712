import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'
import { freePort } from '../helpers/free-port.ts'
import { spawnInstance, type Environment } from '../helpers/instance.ts'
import { AUDIENCE, type Issuer } from '../helpers/issuer.ts'

const root = join(import.meta.dirname, '..', '..')

/** An instance at a port, as a balancer knows it. */
interface Site {
  url: string
  port: number
  /** Whether the balancer sends clients there. */
  isThere: boolean
  /** Processes so far. */
  generation: number
  instance: Running
}

interface Running {
  signal (signal: NodeJS.Signals): void
  ended: Promise<number | null>
}

/** Waits for a process that says nothing about its start. A million requests must leave no lines. */
async function untilReady (url: string, faultOf: () => string | undefined) {
  while (!await fetch(`${url}/health/ready`).then(({ ok }) => ok, () => false)) {
    const fault = faultOf()
    if (fault !== undefined) throw new Error(fault)
    await delay(50)
  }
}

/** Instances that come, go and are replaced. */
export interface Fleet {
  sites: readonly Site[]
  /** The instance of a client: the same one for as long as it runs. */
  homeOf (key: string): Site
  scaleOut (): Promise<void>
  scaleIn (): Promise<void>
  /** Replaces all, one after the other. */
  roll (): Promise<void>
  /** An instance dies at once, and is started again. */
  crash (at: number): Promise<void>
}

interface FleetParts {
  directory: string
  issuer: Issuer
  env: Environment
  size: number
}

export async function startFleet (t: Test, { directory, issuer, env, size }: FleetParts): Promise<Fleet> {
  const start = async (port: number): Promise<Running> => {
    const { child, output, ended } = spawnInstance(t, directory, {
      IDP_ISSUER: issuer.url,
      IDP_AUDIENCE: AUDIENCE,
      LOG_LEVEL: 'warn',
      ...env,
      PORT: String(port)
    })
    await untilReady(
      `http://127.0.0.1:${port}`,
      () =>
        child.exitCode === null && child.signalCode === null
          ? undefined
          : `it ended with ${child.exitCode}: ${output()}`
    )
    return {
      signal: signal => {
        child.kill(signal)
      },
      ended
    }
  }
  const open = async () => {
    const port = await freePort()
    return { url: `http://127.0.0.1:${port}`, port, isThere: true, generation: 1, instance: await start(port) }
  }
  const sites = await Promise.all(Array.from({ length: size }, open))
  const present = () => sites.filter(({ isThere }) => isThere)

  async function replace (site: Site, signal: NodeJS.Signals) {
    site.isThere = false
    site.instance.signal(signal)
    await site.instance.ended
    site.instance = await start(site.port)
    site.generation++
    site.isThere = true
  }

  return {
    sites,
    homeOf (key) {
      const weight = ({ url }: Site) => createHash('sha256').update(key + url).digest('hex')
      return present().reduce((best, site) => weight(site) > weight(best) ? site : best)
    },
    async scaleOut () {
      sites.push(await open())
    },
    async scaleIn () {
      const site = present().at(-1)!
      site.isThere = false
      site.instance.signal('SIGTERM')
      await site.instance.ended
      sites.splice(sites.indexOf(site), 1)
    },
    async roll () {
      for (const site of present()) await replace(site, 'SIGTERM')
    },
    crash: at => replace(present()[at % present().length]!, 'SIGKILL')
  }
}

const PRIMARY = `
import cluster from 'node:cluster'
const [, , cli, workers, ...args] = process.argv
cluster.setupPrimary({ exec: cli, args })
cluster.on('online', ({ process: { pid } }) => console.log('worker ' + pid))
cluster.on('exit', () => cluster.fork())
for (let n = 0; n < Number(workers); n++) cluster.fork()
`

export async function startCluster (t: Test, { directory, issuer, env, size }: FleetParts) {
  const port = await freePort()
  const file = join(directory, 'primary.mjs')
  writeFileSync(file, PRIMARY)
  const words = [
    'start',
    '-c',
    join(directory, 'start-options.js'),
    '--address',
    '127.0.0.1',
    join(directory, 'app.js')
  ]
  const { PATH, HOME } = process.env
  const child = spawn(process.execPath, [file, join(root, 'node_modules/fastify-cli/cli.js'), String(size), ...words], {
    cwd: directory,
    env: {
      PATH,
      HOME,
      _TAPJS_PROCESSINFO_COVERAGE_: '0',
      IDP_ISSUER: issuer.url,
      IDP_AUDIENCE: AUDIENCE,
      LOG_LEVEL: 'warn',
      ...env,
      PORT: String(port)
    },
    stdio: ['ignore', 'pipe', 'inherit']
  })
  t.teardown(() => {
    child.kill('SIGKILL')
  })
  const pids: number[] = []
  let text = ''
  child.stdout.on('data', chunk => {
    text += chunk
    const lines = text.split('\n')
    text = lines.pop()!
    for (const line of lines) if (line.startsWith('worker ')) pids.push(Number(line.slice(7)))
  })
  t.teardown(() => {
    for (const pid of pids) {
      try {
        process.kill(pid, 'SIGKILL')
      } catch {}
    }
  })
  const url = `http://127.0.0.1:${port}`
  await untilReady(url, () => child.exitCode === null ? undefined : `the cluster ended with ${child.exitCode}`)
  return {
    url,
    async crashWorker () {
      const { length } = pids
      process.kill(pids[length - size]!, 'SIGKILL')
      while (pids.length === length) await delay(10)
    }
  }
}
