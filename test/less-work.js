import { setFlagsFromString } from 'node:v8'

// Most functions run too seldom in a test to repay the optimizing compiler: it took an eighth of the processor's time.
setFlagsFromString(
  process.version.startsWith('v20.') ? '--interrupt-budget=600000' : '--invocation-count-for-turbofan=30000'
)
// tap has each stack looked up in source maps, which took as much. Types are only blanked out, so lines keep their
// numbers without.
process.setSourceMapsEnabled(false)
