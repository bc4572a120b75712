import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, constants, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { freePort } from './free-port.ts'
import type { Owner } from './owner.ts'

/** Where a program is, if it is installed. */
function findProgram (name: string) {
  for (const folder of `${process.env.PATH}${delimiter}/usr/sbin${delimiter}/usr/local/bin`.split(delimiter)) {
    try {
      accessSync(join(folder, name), constants.X_OK)
      return join(folder, name)
    } catch {}
  }
  return undefined
}

const program = findProgram('redis-server')

/** Why tests with a real server are skipped, or false. */
export const skipRedis = !program && 'redis-server is not installed'

/** Gives a program a clock that a file sets. It is in the package faketime. */
const clockLibrary = ['x86_64-linux-gnu', 'aarch64-linux-gnu'].map(name => `/usr/lib/${name}/faketime/libfaketime.so.1`)
  .find(file => existsSync(file))

/** Why tests with a server whose clock leaps are skipped, or false. */
export const skipRedisClock = skipRedis || (!clockLibrary && 'faketime is not installed')

export interface RedisServer {
  port: number
  /** Sends one command and gives its reply, the words of a list with blanks between them; throws on an error reply. */
  command (...words: string[]): Promise<string>
  signal (signal: NodeJS.Signals): void
  /** Sets its clock so many seconds ahead of the right time, if it has one of its own. Its steady clock goes on. */
  setClock (secondsAhead: number): void
  /** Kills it without warning. */
  kill (): Promise<void>
  /** Starts it on the same port, with these arguments in place of the first ones, if any. */
  start (args?: string[]): Promise<void>
}

/**
 * A redis-server on loopback that keeps nothing on disk and ends with the test.
 * @param hasOwnClock whether `setClock` sets its clock
 */
export async function startRedis (
  t: Owner,
  args: string[] = [],
  port?: number,
  hasOwnClock = false
): Promise<RedisServer> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-redis-'))
  const clock = join(folder, 'clock')
  // The allocator of redis-server asks for the time, too early for that library: libc's is taken.
  const ownClock = hasOwnClock &&
    {
      LD_PRELOAD: `${clockLibrary}:libc.so.6`,
      FAKETIME_TIMESTAMP_FILE: clock,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1'
    }
  let current = args
  let child: ChildProcess | undefined
  const server: RedisServer = {
    port: port ?? await freePort(),
    command: (...words) => sendCommand(server.port, words),
    signal (signal) {
      child!.kill(signal)
    },
    setClock (secondsAhead) {
      writeFileSync(clock, `${secondsAhead < 0 ? '' : '+'}${secondsAhead}`)
    },
    async kill () {
      if (!child || child.exitCode !== null || child.signalCode !== null) return
      child.kill('SIGKILL')
      await once(child, 'exit')
    },
    async start (args = current) {
      current = args
      const common = ['--bind', '127.0.0.1', '--dir', folder, '--port', String(server.port)]
      if (!args.includes('--sentinel')) common.push('--save', '', '--appendonly', 'no')
      // A configuration file goes first; a Sentinel needs one that it can write to.
      const file = join(folder, 'server.conf')
      writeFileSync(file, '')
      child = spawn(program!, [file, ...common, ...args], { stdio: 'ignore', env: { ...process.env, ...ownClock } })
      await Promise.race([
        untilListening(server.port),
        once(child, 'exit').then(() => {
          throw new Error(`redis-server on port ${server.port} ended at once`)
        })
      ])
    }
  }
  server.setClock(0)
  t.teardown(async () => {
    await server.kill()
    rmSync(folder, { recursive: true, force: true })
  })
  await server.start()
  return server
}

/** The same, which also speaks TLS on a port of its own, with a certificate that nobody trusts. */
export async function startTlsRedis (
  t: Owner,
  args: readonly string[] = []
): Promise<{ readonly server: RedisServer, readonly tlsPort: number }> {
  const file = (name: string) => join(import.meta.dirname, '..', 'fixtures', name)
  const tlsPort = await freePort()
  const server = await startRedis(t, [
    ...args,
    '--tls-port',
    String(tlsPort),
    '--tls-auth-clients',
    'no',
    '--tls-cert-file',
    file('provider.cert.pem'),
    '--tls-key-file',
    file('provider.key.pem'),
    '--tls-ca-cert-file',
    file('provider.cert.pem')
  ])
  return { server, tlsPort }
}

async function untilListening (port: number) {
  for (let left = 6000; left > 0; left--) {
    const socket = connect(port, '127.0.0.1')
    try {
      await once(socket, 'connect')
      return
    } catch {
      await delay(10)
    } finally {
      socket.destroy()
    }
  }
  throw new Error('redis-server does not listen')
}

async function sendCommand (port: number, words: string[]) {
  const socket = connect(port, '127.0.0.1')
  socket.write(`*${words.length}\r\n${words.map(word => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join('')}`)
  try {
    // A server that closes without an answer, as Sentinel makes a new master do, is a failure too.
    socket.setTimeout(10_000, () => socket.destroy(new Error('no answer')))
    socket.once('end', () => socket.destroy(new Error('closed without an answer')))
    const [chunk] = await once(socket, 'data') as [Buffer]
    const [first = '', second = '', ...rest] = chunk.toString().split('\r\n')
    if (first.startsWith('-')) throw new Error(first)
    if (first.startsWith('*')) return rest.filter((_, at) => at % 2 === 0).join(' ').trim()
    return first.startsWith('$') ? second : first.slice(1)
  } finally {
    socket.destroy()
  }
}
