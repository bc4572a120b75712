import { parseArgs, type ParseArgsOptionDescriptor } from 'node:util'
import { nameThatWasMeant } from '../lib/base/suggestion.ts'
import { SettingsError } from '../lib/base/settings-error.ts'
import { BadUsage } from './bad-usage.ts'
import { NoAnswer } from './exchange.ts'
import { createPaint, terminalText, type Output, type Paint } from './show.ts'
import type { Tenant } from './tenants.ts'

/** The options of a tool, by name, as they are read and as `--help` shows them. */
type Options = Readonly<
  Record<
    string,
    ParseArgsOptionDescriptor & {
      /** What follows the option. */
      readonly value?: string,
      readonly says: string,
      /** The variable that says the same. */
      readonly env?: string
    }
  >
>

export const text = { type: 'string' } as const
export const flag = { type: 'boolean' } as const
export const list = { type: 'string', multiple: true } as const

export interface Tool<Known extends Options = Options> {
  readonly name: string
  readonly options: Known
  /** The most words that it takes beside the options. None unless given. */
  readonly mostWords?: number
  /** What `--help` says before the options. `run` is how the tool is started here. */
  readonly help: (run: string) => string
  /** What it says after them. `tenants` says whether a local tenant may replace what is not named. */
  readonly ending?: (tenants: boolean) => string
}

export interface World {
  readonly env: NodeJS.ProcessEnv
  readonly out: Output
  /** The command that the tools are parts of; in a clone they are scripts of npm. */
  readonly program?: string
  /** The local tenants that run. Undefined if there can be none: only a clone has the script that starts them. */
  readonly tenants?: readonly Tenant[] | undefined
}

/**
 * Runs a tool. Returns its exit code. If it cannot do what was asked, it says so in a sentence, without a stack, and
 * the code is 1.
 */
export async function runTool<const Known extends Options> (
  tool: Tool<Known>,
  argv: readonly string[],
  world: World,
  run: (args: Arguments<Known>, paint: Paint) => Promise<number>
): Promise<number> {
  const { env, out, program, tenants } = world
  const paint = createPaint(out, env)
  const start = program === undefined ? `npm run ${tool.name} --` : `${program} ${tool.name}`
  try {
    const args = readArguments(argv, tool, program === undefined ? env : {}, start)
    if (args !== null) return await run(args, paint)
    const parts = [tool.help(start), showOptions(tool.options), tool.ending?.(tenants !== undefined) ?? '']
    out.write(`${parts.filter(part => part !== '').join('\n\n')}\n`)
    return 0
  } catch (error) {
    if (error instanceof BadUsage || error instanceof SettingsError) {
      out.write(`${paint('red', terminalText(error.message))}\n${start} --help tells more.\n`)
    } else if (error instanceof NoAnswer) out.write(`\n${paint('red', 'No answer.')} ${terminalText(error.message)}\n`)
    else throw error
    return 1
  }
}

function showOptions (options: Options): string {
  return Object.entries(options).map(([name, { value = '', says, env }]) => {
    const line = `  ${`--${name} ${value}`.padEnd(22)} ${says.replaceAll('\n', `\n${' '.repeat(25)}`)}`
    return env === undefined ? line : `${line.padEnd(68)} ${env}`
  }).join('\n')
}

export interface Arguments<Known extends Options> {
  readonly values: ReturnType<typeof parseArgs<{ options: Known }>>['values']
  readonly positionals: readonly string[]
}

/** npm has options of these names itself, and may have them from its own configuration. */
const OPTIONS_OF_NPM = new Set(['json', 'offline', 'scope'])

/**
 * Splits a command line into options and the rest. Null if only help was asked for. `env` holds what npm passes to a
 * script, if one runs. @throws BadUsage
 */
function readArguments<const Known extends Options> (
  argv: readonly string[],
  { options, mostWords = 0 }: Tool<Known>,
  env: NodeJS.ProcessEnv,
  start: string
): Arguments<Known> | null {
  // Without -- npm takes an option for its own, and the tool would do something else.
  const kept = Object.keys(options).find(name =>
    !OPTIONS_OF_NPM.has(name) && env[`npm_config_${name.replaceAll('-', '_')}`] !== undefined
  )
  if (kept !== undefined) {
    throw new BadUsage(`npm has kept --${kept} for itself. Write -- before the options: ${start} --${kept} ...`)
  }
  try {
    // Not every package manager removes the -- before the arguments of a script.
    const args = argv[0] === '--' ? argv.slice(1) : [...argv]
    const { values, positionals, tokens } = parseArgs({
      args,
      options: { ...options, help: { type: 'boolean', short: 'h' } },
      allowPositionals: true,
      tokens: true
    })
    // The last one would count, and the others would seem to.
    const said = tokens.flatMap(token => token.kind === 'option' && token.value !== undefined ? token.name : [])
    const twice = said.find((name, n) => said.indexOf(name) < n && !options[name]!.multiple)
    if (twice !== undefined) throw new BadUsage(`--${twice} is given more than once`)
    if ((values as { help?: boolean }).help === true) return null
    if (positionals.length > mostWords) throw new BadUsage(`Unexpected argument ${positionals.slice(mostWords).join(' ')}`)
    return { values: values as Arguments<Known>['values'], positionals }
  } catch (error) {
    const { code, message } = error as Error & { code?: string }
    const unknown = code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION' ? /'(-[^']*)'/.exec(message)?.[1] : undefined
    throw new BadUsage(
      unknown === undefined
        ? message
        : unknownName('option', unknown, [...Object.keys(options), 'help'].map(name => `--${name}`))
    )
  }
}

/** The sentence about a name that is not known, with the nearest one that is. */
export function unknownName (kind: string, name: string, known: readonly string[]): string {
  const meant = nameThatWasMeant(name, known)
  return `There is no ${kind} ${name}${meant === undefined ? '' : `; did you mean ${meant}?`}`
}

/** Name and value on either side of the mark. @throws BadUsage */
export function splitPair (option: string, pair: string, mark: string): [name: string, value: string] {
  const at = pair.indexOf(mark)
  if (at < 1) throw new BadUsage(`${option} "${pair}" has no ${mark} in it`)
  return [pair.slice(0, at).trim(), pair.slice(at + 1).trim()]
}
