import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const require = createRequire(import.meta.url)

const USAGE = `Guards an HTTP API with access tokens and DPoP.

  holdfast start     the service, with the settings of the environment, .env and config.yaml
  holdfast gate      the guard in front of another service: not in this version
  holdfast call      gets an access token, calls an API, and shows all of it
  holdfast explain   says what each check says to a request
  holdfast check     says whether the settings and the provider are fit for use

Each has --help. holdfast --version prints the version.
`

const START_USAGE = `Starts the service. It needs two settings: IDP_DOMAIN and IDP_AUDIENCE.

  IDP_DOMAIN=tenant.example IDP_AUDIENCE=https://api.example holdfast start

  --port NUMBER        the port to listen on; PORT says the same
  --address ADDRESS    the address to listen on: localhost unless told
`

const TOOLS = ['call', 'explain', 'check']

const [command = '--help', ...argv] = process.argv.slice(2)
if (command === '--help' || command === '-h') process.stdout.write(USAGE)
else if (command === '--version') process.stdout.write(`${(require('../../../package.json') as { version: string }).version}\n`)
else if (command === 'start') start()
else if (command === 'gate') fail('The gate is not in this version: holdfast start serves the API, and docs/behind-a-proxy.md shows proxies in front of it.')
else if (TOOLS.includes(command)) await import('../../cli/main.ts')
else fail(`There is no command ${JSON.stringify(command)}.\n\n${USAGE}`)

/** Runs fastify-cli in this process, with the compiled app of this package, as `npm start` does in the repository. */
function start (): void {
  const options = startOptions()
  if (options === undefined) return
  const { port, address } = options
  const { start } = require('fastify-cli/start.js') as { start: (args: string[]) => unknown }
  start([
    ...port === undefined ? [] : ['-p', port],
    ...address === undefined ? [] : ['-a', address],
    '-c', beside('../../start-options.js'),
    beside('../../app.js')
  ])
}

/** Undefined if there is nothing to start: the help was asked for, or an option is unknown. */
function startOptions (): { port?: string, address?: string } | undefined {
  try {
    const { values: { help, ...options } } = parseArgs({ args: argv, options: { port: { type: 'string' }, address: { type: 'string' }, help: { type: 'boolean', short: 'h' } } })
    if (!help) return options
    process.stdout.write(START_USAGE)
  } catch (error) {
    fail(`${(error as Error).message}\n\n${START_USAGE}`)
  }
  return undefined
}

function beside (path: string): string {
  return fileURLToPath(new URL(path, import.meta.url))
}

function fail (text: string): void {
  process.stderr.write(`${text}\n`)
  process.exitCode = 1
}
