import { parseArgs } from 'node:util'
import type { ParseArgsOptionsConfig } from 'node:util'

/** What was asked cannot be done as it was asked; the message says what to change. */
export class BadUsage extends Error {}

/** Splits a command line into flags and the rest. @throws BadUsage */
export function splitArguments<const Flags extends ParseArgsOptionsConfig> (argv: readonly string[], flags: Flags) {
  try {
    // Not every package manager takes the -- away that stands before the arguments of a script.
    const args = argv[0] === '--' ? argv.slice(1) : [...argv]
    return parseArgs({ args, options: flags, allowPositionals: true })
  } catch (error) {
    throw new BadUsage((error as Error).message)
  }
}
