import { processSurroundings } from '../../server/surroundings.ts'
import type { Surroundings } from '../../lib/base/surroundings.ts'

/** How many times longer than in service a record may take, so that no test depends on the speed of the machine. */
const PATIENCE = 20

/**
 * The surroundings of a shared replay store for tests in which the server answers. What the store does again and again
 * is not slower.
 */
export const patientSurroundings: Surroundings = {
  ...processSurroundings,
  after: (ms, run) => processSurroundings.after(ms * PATIENCE, run)
}

/** The same for a store of revocations: only writers wait for as long as a second. */
export const patientWriters: Surroundings = {
  ...processSurroundings,
  after: (ms, run) => processSurroundings.after(ms < 1000 ? ms : ms * PATIENCE, run)
}
