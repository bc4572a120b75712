import { setFlagsFromString } from 'node:v8'

// Most functions run too seldom in a test to repay the optimizing compiler: it took an eighth of the processor's time.
setFlagsFromString(
  process.version.startsWith('v20.') ? '--interrupt-budget=600000' : '--invocation-count-for-turbofan=30000'
)
