/** Before the first entry. */
export const START = '0-0'

/** Places that are remembered, to find out how much a server has lost. */
const MAX_CHECKPOINTS = 128

export type LogPlace = ReturnType<typeof createLogPlace>

/** Up to which entry a process has read the log, and how many entries it has read or written again so far. */
export function createLogPlace () {
  let id = START
  let count = 0
  /** Earlier values of the two, the newest last. */
  let checkpoints: Array<readonly [id: string, count: number]> = []

  return {
    id: (): string => id,
    count: (): number => count,
    next: (): number => ++count,
    moveTo (to: string): void {
      if (to === id) return
      id = to
      checkpoints.push([id, count])
      // The older, the fewer are needed.
      if (checkpoints.length > MAX_CHECKPOINTS) {
        checkpoints = checkpoints.filter((_, index) => index % 2 === 0 || index > MAX_CHECKPOINTS / 2)
      }
    },
    /** Earlier ids, the newest first. */
    earlier: (): readonly string[] => checkpoints.map(([id]) => id).reverse(),
    /**
     * Goes back to one of the earlier ids: `1` is the newest, `0` the start of the log.
     * @returns the count there, -1 at the start
     */
    goBack (to: number): number {
      const [common = START, at = -1] = (to === 0 ? undefined : checkpoints.at(-to)) ?? []
      checkpoints = to === 0 ? [] : checkpoints.slice(0, checkpoints.length - to + 1)
      id = common
      return at
    }
  }
}
