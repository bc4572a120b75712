import { parseArgs } from 'node:util'
import type { ParseArgsOptionDescriptor } from 'node:util'

/** What was asked cannot be done as it was asked; the message says what to change. */
export class BadUsage extends Error {}

/** The options of a command, by name, as they are read and as `--help` shows them. */
export type Options = Readonly<Record<string, ParseArgsOptionDescriptor & {
  /** What stands after the option. */
  readonly value?: string
  readonly says: string
  /** The variable that says the same. */
  readonly env?: string
}>>

export const text = { type: 'string' } as const
export const flag = { type: 'boolean' } as const
export const list = { type: 'string', multiple: true } as const

export function showOptions (options: Options): string {
  return Object.entries(options).map(([name, { value = '', says, env }]) => {
    const line = `  ${`--${name} ${value}`.padEnd(22)} ${says.replaceAll('\n', `\n${' '.repeat(25)}`)}`
    return env === undefined ? line : `${line.padEnd(68)} ${env}`
  }).join('\n')
}

/** Splits a command line into options and the rest; null when only help was asked for. @throws BadUsage */
export function splitArguments<const Known extends Options> (argv: readonly string[], options: Known) {
  try {
    // Not every package manager takes the -- away that stands before the arguments of a script.
    const args = argv[0] === '--' ? argv.slice(1) : [...argv]
    const { values, positionals } = parseArgs({ args, options: { ...options, help: { type: 'boolean', short: 'h' } }, allowPositionals: true })
    return (values as { help?: boolean }).help === true ? null : { values: values as ReturnType<typeof parseArgs<{ options: Known }>>['values'], positionals }
  } catch (error) {
    throw new BadUsage((error as Error).message)
  }
}

/** Name and value on either side of the mark. @throws BadUsage */
export function splitPair (option: string, pair: string, mark: string): [name: string, value: string] {
  const at = pair.indexOf(mark)
  if (at < 1) throw new BadUsage(`${option} "${pair}" has no ${mark} in it`)
  return [pair.slice(0, at).trim(), pair.slice(at + 1).trim()]
}
