import type { parseArgs, ParseArgsConfig } from 'node:util'

type Options = NonNullable<ParseArgsConfig['options']>

export function readOptions<const Known extends Options> (
  options: Known
): ReturnType<typeof parseArgs<{ options: Known }>>['values']
export function expectKnown (option: string, values: readonly string[], known: readonly string[]): void
