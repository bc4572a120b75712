import { inspect } from 'node:util'
import { carries } from './kind.ts'

const kSettingsError = Symbol.for('holdfast.SettingsError')

/** Bad settings: one message with a line for each problem. */
export class SettingsError extends Error {
  /** @internal */
  static override [Symbol.hasInstance] = carries(kSettingsError)
  /** @internal */
  readonly [kSettingsError] = true
  /** For logs. */
  override readonly name = 'SettingsError'
  /** One sentence for each setting that cannot be used. */
  readonly problems: readonly string[]

  constructor (problems: readonly string[]) {
    super(`The settings are not usable:\n${problems.map(problem => `  - ${problem}`).join('\n')}`)
    this.problems = problems
  }

  /**
   * fastify-cli prints the error as it is. An operator reads it, and the fault is not in the code, so it has no stack.
   */
  [inspect.custom] (): string {
    return this.message
  }
}
