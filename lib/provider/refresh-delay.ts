const MINUTE_MS = 60_000
const FIRST_STEP_MS = 2000
export const LONGEST_BACK_OFF_MS = 60_000

/** 8 to 9.5 minutes: keys are refreshed before they are 10 minutes old, a slow fetch included. `random` is in [0, 1). */
export function refreshAfterMs (random: number): number {
  return 8 * MINUTE_MS + random * 1.5 * MINUTE_MS
}

/** The wait after so many failures in a row: steps of 2, 4, 8 ... 60 s, each cut by up to half, so 1 to 60 s. `random` is in [0, 1). */
export function backOffMs (failures: number, random: number): number {
  const stepMs = Math.min(LONGEST_BACK_OFF_MS, FIRST_STEP_MS * 2 ** (failures - 1))
  return stepMs * (1 - random / 2)
}
