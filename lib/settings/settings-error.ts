import { inspect } from 'node:util'

/** Bad settings: one message with a line for each of them. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError'
  readonly problems: readonly string[]

  constructor (problems: readonly string[]) {
    super(`The settings are not usable:\n${problems.map(problem => `  - ${problem}`).join('\n')}`)
    this.problems = problems
  }

  /** fastify-cli prints the error as it is. Its reader is an operator, and the fault is not in the code: no stack. */
  [inspect.custom] (): string {
    return this.message
  }
}
