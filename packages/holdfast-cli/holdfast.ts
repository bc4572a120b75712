import { createRequire } from 'node:module'

const USAGE = `Guards an HTTP API with access tokens and DPoP.

  holdfast start     the service, with the settings of the environment, .env and config.yaml
  holdfast gate      the guard in front of another service
  holdfast call      gets an access token, calls an API, and shows all of it
  holdfast explain   says what each check says to a request
  holdfast check     says whether the settings and the provider are fit for use

Each has --help. holdfast --version prints the version.
`

const [command = '--help'] = process.argv.slice(2)
if (command === '--help' || command === '-h') process.stdout.write(USAGE)
else if (command === '--version') process.stdout.write(`${(createRequire(import.meta.url)('../../../package.json') as { version: string }).version}\n`)
else await import('../../cli/main.ts')
