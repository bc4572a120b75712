import { readDotenvInto, readTextIfThere } from '../lib/settings/sources.ts'
import { unknownName } from './arguments.ts'
import { readTenants } from './tenants.ts'
import { startService } from './start-service.ts'
import { showTools, TOOLS } from './tools.ts'

/** The command: the name of a tool comes first, then its arguments. */
const [name = '--help', ...argv] = process.argv.slice(2)
const isHelp = name === '--help' || name === '-h'
// Compiled, this is part of the package.
const program = import.meta.filename.endsWith('.ts') ? undefined : 'holdfast'

// Who reads has seen enough, such as `head`.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
  process.exit(1)
})

if (Object.hasOwn(TOOLS, name)) {
  readDotenvInto(process.env, readTextIfThere)
  const run = await TOOLS[name as keyof typeof TOOLS][1]()
  process.exitCode = await run(argv, {
    env: process.env,
    out: process.stdout,
    program,
    readFile: readTextIfThere,
    input: process.stdin,
    tenants: program === undefined ? readTenants() : undefined,
    startService,
    now: Date.now() / 1000
  })
} else {
  if (!isHelp) process.stdout.write(`${unknownName('tool', name, Object.keys(TOOLS))}\n\n`)
  process.stdout.write(showTools(program))
  process.exitCode = isHelp ? 0 : 1
}
