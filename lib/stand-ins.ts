import type { Transport } from './provider/transport.ts'
import type { Surroundings } from './surroundings.ts'

/**
 * What a test puts in the place of the process and of the network: its own clock, and an identity provider in memory. Only
 * `createTestIssuer` of `holdfast/testing` makes them.
 */
export interface StandIns {
  readonly surroundings: Surroundings
  readonly transport: Transport
}

/**
 * The key under which options carry stand-ins. It is a symbol that the package does not export, so neither a configuration file nor an
 * environment can set it, and a copy of the options keeps it.
 */
export const kStandIns = Symbol('holdfast.standIns')

/** Something that may carry stand-ins: options, or an app. */
export interface MayHaveStandIns {
  readonly [kStandIns]?: StandIns
}
