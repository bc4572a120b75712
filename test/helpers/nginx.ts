import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Owner } from './owner.ts'
import { isListening } from './programs.ts'

const CONFIGURATIONS = join(import.meta.dirname, '..', '..', 'deploy', 'nginx')

/** The nginx of this machine, or undefined. Debian keeps it where the PATH of a user does not look. */
export const nginxProgram: string | undefined = [
  'nginx',
  '/usr/sbin/nginx',
  '/usr/local/sbin/nginx',
  '/opt/homebrew/bin/nginx'
]
  .find(program => spawnSync(program, ['-v']).status === 0)

/**
 * Makes a folder that of an nginx, and returns its arguments. Everything that it writes stays there. It runs one
 * worker, so that kept connections can be counted.
 * @param http what is in the block `http` of its configuration
 */
export function prepareNginx (folder: string, http: string): string[] {
  const logs = join(folder, 'logs')
  mkdirSync(logs)
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(name =>
    `${name}_temp_path temporary-${name};`
  ).join(' ')
  const user = process.getuid?.() === 0 ? 'user root;' : ''
  writeFileSync(
    join(folder, 'nginx.conf'),
    `${user} daemon off; pid nginx.pid; worker_processes 1; events {} http { access_log off; ${temporary}\n${http}\n}\n`
  )
  return ['-p', folder, '-c', 'nginx.conf', '-e', join(logs, 'error.log')]
}

interface NginxParts {
  /** One of deploy/nginx/*.conf. */
  file: string
  port: number
  /** Texts of the file and their replacements. A text that the file does not hold is an error. */
  replacements: Record<string, string>
}

export interface Nginx {
  /** Signals the master only: SIGHUP reads the configuration again. */
  signal (signal: NodeJS.Signals): void
  /** Signals the master and its worker. */
  signalAll (signal: NodeJS.Signals): void
  /** Kills both without warning. */
  kill (): Promise<void>
  /** Starts it on the same port. */
  start (): Promise<void>
}

/** A file with other texts. One that it no longer holds is an error. */
export function readReplacing (folder: string, file: string, replacements: Record<string, string>): string {
  let text = readFileSync(join(folder, file), 'utf8')
  for (const [from, to] of Object.entries(replacements)) {
    if (!text.includes(from)) throw new Error(`${file} no longer holds ${from}`)
    // A port that was put there may begin with one that is replaced later: 30001 with 3000.
    const place = new RegExp(`${from.replace(/[$()*+.?[\\\]^{|}]/g, '\\$&')}(?!\\d)`, 'g')
    text = text.replace(place, () => to)
  }
  return text
}

/** Real nginx with a configuration of deploy/nginx on a port of loopback. It ends with the test. */
export async function startNginx (t: Owner, { file, port, replacements }: NginxParts): Promise<Nginx> {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-nginx-'))
  chmodSync(directory, 0o755)
  cpSync(join(CONFIGURATIONS, 'snippets'), join(directory, 'snippets'), { recursive: true })
  writeFileSync(join(directory, file), readReplacing(CONFIGURATIONS, file, replacements))
  const args = prepareNginx(directory, `include ${file};`)

  const errorLog = join(directory, 'logs', 'error.log')
  let child: ChildProcess
  let ended: Promise<void>
  const nginx: Nginx = {
    signal (signal) {
      child.kill(signal)
    },
    signalAll (signal) {
      // The worker first: a master that is gone has none any more.
      for (const worker of workersOf(child.pid!)) process.kill(worker, signal)
      child.kill(signal)
    },
    async kill () {
      // A master that runs would start another worker.
      child.kill('SIGSTOP')
      nginx.signalAll('SIGKILL')
      await ended
    },
    async start () {
      child = spawn(nginxProgram!, args, { stdio: 'ignore' })
      ended = new Promise<void>(resolve => child.on('exit', () => resolve()))
      for (let tries = 0; !await isListening(port); tries++) {
        if (child.exitCode !== null || tries > 200) {
          throw new Error(`nginx did not start: ${existsSync(errorLog) ? readFileSync(errorLog, 'utf8') : ''}`)
        }
        await new Promise(resolve => setTimeout(resolve, 25))
      }
    }
  }
  t.teardown(async () => {
    child.kill('SIGTERM')
    await ended
    rmSync(directory, { recursive: true, force: true })
  })
  await nginx.start()
  return nginx
}

const workersOf = (pid: number) =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
