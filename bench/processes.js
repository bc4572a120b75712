import { fork, spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import getPort from 'get-port'
import { cpuTime } from './kernel.js'

export const ROOT = `${join(import.meta.dirname, '..')}/`
export const SERVER_CORE = 0
export const LOAD_CORE = 1

/** Every process of the run that is alive, by the core it is pinned to; what else a core does is not ours. */
export const running = { [SERVER_CORE]: new Set(), [LOAD_CORE]: new Set([process.pid]) }

export const ourCpuMs = core => {
  let sum = 0
  for (const pid of running[core]) sum += cpuTime(pid).totalNs / 1e6
  return sum
}

/** Starts a command on one core; its standard error is kept for when it fails, its standard output thrown away. */
const startPinned = (core, command, { env, cwd = ROOT }) => {
  const child = spawn('taskset', ['-c', String(core), ...command], {
    env: { ...process.env, ...env },
    cwd,
    stdio: ['ignore', 'ignore', 'pipe']
  })
  let complaint = ''
  child.stderr.on('data', text => {
    complaint = (complaint + text).slice(-4000)
  })
  running[core].add(child.pid)
  let ended = false
  child.once('close', () => {
    ended = true
    running[core].delete(child.pid)
  })
  return {
    pid: child.pid,
    complaint: () => complaint,
    ended: () => ended,
    stop: () =>
      new Promise(resolve => {
        if (ended) return resolve()
        child.once('close', resolve)
        child.kill('SIGKILL')
      })
  }
}

/** Waits until a server answers 200 on a path; how long that took since `startedMs`. */
const untilUp = async (server, port, path, startedMs, patienceMs = 60_000) => {
  for (;;) {
    try {
      const answer = await fetch(`http://127.0.0.1:${port}${path}`)
      await answer.arrayBuffer()
      if (answer.status === 200) return performance.now() - startedMs
    } catch {}
    if (server.ended() || performance.now() - startedMs > patienceMs) {
      throw new Error(`a server did not come up: ${server.complaint()}`)
    }
    await sleep(2)
  }
}

export const startServer = async (command, env, { probe = '/api/public' } = {}) => {
  const port = await getPort()
  const startedMs = performance.now()
  const server = startPinned(SERVER_CORE, command, { env: { NODE_ENV: 'production', ...env, PORT: String(port) } })
  const startMs = await untilUp(server, port, probe, startedMs)
  return { ...server, port, startMs }
}

export const contender = name => [process.execPath, join(ROOT, 'bench/contenders', `${name}.js`)]

/** The command of `npm start`, without npm: the service as it is shipped. Null before it has been built. */
export const holdfast = () => {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  if (scripts.start === undefined || !existsSync(join(ROOT, 'dist/app.js'))) return null
  const [program, ...rest] = scripts.start.split(' ')
  if (program === 'node') return [process.execPath, ...rest]
  return [process.execPath, join(ROOT, 'node_modules/.bin', program), ...rest]
}

export const hasRedis = () => spawnSync('redis-server', ['--version']).status === 0

/** A Redis of the run's own on the core of the load: nothing is written to disk, nothing is ever evicted. */
export const startRedis = async () => {
  const port = await getPort()
  const server = startPinned(LOAD_CORE, [
    'redis-server',
    '--port',
    String(port),
    '--bind',
    '127.0.0.1',
    '--save',
    '',
    '--appendonly',
    'no',
    '--maxmemory-policy',
    'noeviction'
  ], { cwd: mkdtempSync(join(tmpdir(), 'holdfast-bench-')) })
  return { ...server, url: `redis://127.0.0.1:${port}` }
}

/** The load generator's process, with `call` for the commands that load.js knows. */
export const startLoad = provider => {
  const child = fork(join(ROOT, 'bench/load.js'), { execArgv: ['--expose-gc', '--max-old-space-size=6000'] })
  spawnSync('taskset', ['-a', '-cp', String(LOAD_CORE), String(child.pid)])
  running[LOAD_CORE].add(child.pid)
  const call = (command, options) =>
    new Promise((resolve, reject) => {
      child.once('message', ({ value, error }) => error === undefined ? resolve(value) : reject(new Error(error)))
      child.send({ command, options })
    })
  return { pid: child.pid, call, init: () => call('init', provider), stop: () => child.disconnect() }
}

/** Has this program run on the core of the load generator. Ends it if the machine has no two cores to measure with. */
export const pinToLoadCore = () => {
  if (
    process.platform === 'linux' &&
    spawnSync('taskset', ['-a', '-cp', String(LOAD_CORE), String(process.pid)]).status === 0
  ) return
  console.error('This reads the accounts of the Linux kernel and needs taskset and two cores.')
  process.exit(2)
}
