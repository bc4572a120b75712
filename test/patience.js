// A provider has 5 s for its documents. A busy machine may take as long for a test that means no such limit; those of
// the limit name a shorter one.
const LIMIT_MS = 5000
const PATIENCE = 12

const { setTimeout: set } = globalThis
globalThis.setTimeout = Object.defineProperties(
  (run, ms, ...args) => set(run, ms === LIMIT_MS ? ms * PATIENCE : ms, ...args),
  Object.getOwnPropertyDescriptors(set)
)
