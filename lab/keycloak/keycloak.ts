import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { freePort } from '../../test/helpers/free-port.ts'

/** A Keycloak that runs. */
export interface Keycloak {
  url: string
  /**
   * Calls the admin API as the administrator. Returns the body, or the id of what was made. @throws if it is refused
   */
  admin (method: string, path: string, body?: object): Promise<any>
  stop (): Promise<void>
}

interface KeycloakOptions {
  version: string
  /** Those that are off by default, such as `ssf`. */
  features: readonly string[]
  /** Further arguments of its start. */
  args: readonly string[]
}

const ADMIN = { username: 'admin', password: 'admin' }
/** Development mode builds the server first. */
const START_MS = 900_000

/** Fetches that version, unless Maven has it, unpacks it into a temporary folder, and starts it there. */
export async function startKeycloak ({ version, features, args: further }: KeycloakOptions): Promise<Keycloak> {
  const archive = await fetchDistribution(version)
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-keycloak-'))
  await promisify(execFile)('unzip', ['-q', archive, '-d', folder])
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const args = [
    'start-dev',
    '--http-host=127.0.0.1',
    `--http-port=${port}`,
    ...features.length === 0 ? [] : [`--features=${features.join(',')}`],
    ...further
  ]
  const logFile = join(folder, 'log.txt')
  // The shell script starts Java: a group of its own, so that both end.
  const child = spawn(join(folder, `keycloak-${version}`, 'bin', 'kc.sh'), args, {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, KC_BOOTSTRAP_ADMIN_USERNAME: ADMIN.username, KC_BOOTSTRAP_ADMIN_PASSWORD: ADMIN.password }
  })
  const log = createWriteStream(logFile)
  for (const stream of [child.stdout, child.stderr]) stream.pipe(log, { end: false })
  const ended = once(child, 'exit')
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) process.kill(-child.pid!, 'SIGTERM')
    await ended
    log.end()
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    await untilItAnswers(url, () => child.exitCode !== null)
    return { ...useKeycloak(url), stop }
  } catch (error) {
    const said = readFileSync(logFile, 'utf8').slice(-4000)
    await stop()
    throw new Error(`Keycloak did not start:\n${said}`, { cause: error })
  }
}

/** One that runs already. It is not stopped. */
export function useKeycloak (url: string): Keycloak {
  return {
    url,
    async admin (method, path, body) {
      // Its tokens live for a minute.
      const token = await requestToken(`${url}/realms/master`, {
        grant_type: 'password',
        client_id: 'admin-cli',
        ...ADMIN
      })
      const answer = await fetch(`${url}/admin/realms${path}`, {
        method,
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        ...body && { body: JSON.stringify(body) }
      })
      if (!answer.ok && !(method === 'DELETE' && answer.status === 404)) {
        throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`)
      }
      const text = await answer.text()
      return text === '' ? answer.headers.get('location')?.split('/').at(-1) : JSON.parse(text)
    },
    stop: async () => {}
  }
}

/** A token of an issuer for these parameters. @throws if there is none */
export async function requestToken (
  issuer: string,
  parameters: Record<string, string>,
  headers: Record<string, string> = {}
): Promise<string> {
  const answer = await fetch(`${issuer}/protocol/openid-connect/token`, {
    method: 'POST',
    headers,
    body: new URLSearchParams(parameters)
  })
  const { access_token: token, error, error_description: description } = await answer.json() as Record<string, string>
  if (token === undefined) throw new Error(`${answer.status} ${error}: ${description}`)
  return token
}

async function fetchDistribution (version: string) {
  const folder = join(homedir(), '.m2/repository/org/keycloak/keycloak-quarkus-dist', version)
  const find = () =>
    existsSync(folder) ? readdirSync(folder).find(name => name.endsWith('.zip')) : undefined
  if (find() === undefined) {
    await promisify(execFile)('mvn', [
      '-q',
      '-B',
      'dependency:get',
      `-Dartifact=org.keycloak:keycloak-quarkus-dist:${version}:zip`,
      '-Dtransitive=false'
    ])
  }
  const name = find()
  if (name === undefined) {
    throw new Error(`${folder} has no distribution: is there a settings.xml with another repository?`)
  }
  return join(folder, name)
}

async function untilItAnswers (url: string, hasEnded: () => boolean) {
  const until = Date.now() + START_MS
  while (Date.now() < until && !hasEnded()) {
    const isThere = await fetch(`${url}/realms/master`).then(({ ok }) => ok, () => false)
    if (isThere) return
    await delay(500)
  }
  throw new Error(hasEnded() ? 'it has ended' : 'it takes too long')
}
