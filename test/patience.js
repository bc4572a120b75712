const DEADLINE_MS = 5000
const PATIENCE = 12

const { setTimeout: set } = globalThis

// The provider of a test is mostly in the process of the test. However busy the machine is, no exchange with it is to meet the deadline
// of lib/provider/transport.ts, which test/lib/limits.test.ts judges. All other timers run as they are set.
const put = (run, ms, ...rest) => set(run, ms === DEADLINE_MS && run.name === 'close' ? ms * PATIENCE : ms, ...rest)
globalThis.setTimeout = Object.assign(put, set)
