import { readTextIfThere } from '../lib/settings/sources.ts'
import { unknownName } from './arguments.ts'
import { readTenants } from './places.ts'
import { startService } from './start-service.ts'

/** The command: the name of a tool comes first, then its arguments. Each tool is loaded only if it is asked for. */
const TOOLS = {
  start: ['starts the service', async () => (await import('./start.ts')).start],
  gate: ['guards another service, and says which of its rules holds for a request', async () => (await import('./gate.ts')).gate],
  call: ['gets an access token, calls the API, and shows every step', async () => (await import('./call.ts')).call],
  revoke: ['revokes access tokens, or undoes a revocation', async () => (await import('./revoke.ts')).revoke],
  explain: ['runs each check of the service on a request, a token or a proof', async () => (await import('./explain.ts')).explain],
  check: ['verifies settings, identity provider and replay store', async () => (await import('./check.ts')).check]
} as const

const [name = '--help', ...argv] = process.argv.slice(2)
const isHelp = name === '--help' || name === '-h'

if (Object.hasOwn(TOOLS, name)) {
  const run = await TOOLS[name as keyof typeof TOOLS][1]()
  process.exitCode = await run(argv, {
    env: process.env,
    out: process.stdout,
    // Compiled, this is part of the package.
    program: import.meta.filename.endsWith('.ts') ? undefined : 'holdfast',
    readFile: readTextIfThere,
    input: process.stdin,
    tenants: readTenants(),
    startService,
    now: Date.now() / 1000
  })
} else {
  const lines = Object.entries(TOOLS).map(([tool, [says]]) => `  ${tool.padEnd(10)} ${says}`)
  if (!isHelp) process.stdout.write(`${unknownName('tool', name, Object.keys(TOOLS))}\n\n`)
  process.stdout.write(['Tools, each with --help:', '', ...lines, ''].join('\n'))
  process.exitCode = isHelp ? 0 : 1
}
