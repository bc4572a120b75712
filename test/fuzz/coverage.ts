import { Session } from 'node:inspector/promises'
import { setFlagsFromString } from 'node:v8'

/** What a call has run of the code that is watched. */
interface Run {
  /** Blocks, each with how often it was entered: never, 1, 2, 3 to 4, 5 to 8 and so on. */
  blocks: readonly string[]
  /**
   * How often each function was entered, and how often the busiest of its blocks, all together: a measure of work that
   * does not depend on the machine. Other blocks do not count: V8 leaves some out, for one input and not for the next.
   */
  operations: number
}

export interface Meter {
  run (call: () => unknown): Promise<Run>
  close (): Promise<void>
}

/**
 * Counts with V8's precise coverage what runs in files whose URL holds `part`. Work inside of V8, such as of a regular
 * expression, is not seen.
 */
export async function openMeter (part: string): Promise<Meter> {
  // V8 does not count the calls of what either of its optimizing compilers has inlined.
  for (const compiler of ['opt', 'maglev']) setFlagsFromString(`--no-${compiler}`)
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true })
  // What has run before does not count.
  await take()

  async function take () {
    const { result } = await session.post('Profiler.takePreciseCoverage')
    return result.filter(({ url }) => url.includes(part))
  }

  return {
    async run (call) {
      await call()
      const blocks: string[] = []
      let operations = 0
      for (const { scriptId, functions } of await take()) {
        for (const { ranges } of functions) {
          operations += ranges[0]!.count + Math.max(...ranges.map(({ count }) => count))
          for (const { startOffset, endOffset, count } of ranges) {
            // V8 reports a block only if its count differs from that of the block around it, so blocks that were not
            // entered matter too.
            blocks.push(`${scriptId}:${startOffset}:${endOffset}:${count === 0 ? 'not' : Math.ceil(Math.log2(count))}`)
          }
        }
      }
      return { blocks, operations }
    },
    async close () {
      await session.post('Profiler.stopPreciseCoverage')
      session.disconnect()
      // The other one is off in Node 22 and before.
      setFlagsFromString('--opt')
    }
  }
}
