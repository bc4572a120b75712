import type { ServerResponse } from 'node:http'

/**
 * The number of answers that may stall for any time. Each holds what Node has read for it: a piece of 64 KB on its way
 * to the client, and another one from the upstream.
 */
export const MAX_STALLED = 64
/** If there are more, milliseconds for which a client may take nothing. */
export const STALL_MS = 5_000

/** Milliseconds for which a connection may be silent. */
export const SILENCE_MS = 30_000
/** By then whoever waits for something else has given up. */
const MARGIN_MS = 5_000

/**
 * Milliseconds for which the connection of a client may be silent, in both directions, if its request may take so many
 * seconds.
 */
export function silenceMs (timeoutSeconds: number): number {
  return Math.max(SILENCE_MS, timeoutSeconds * 1000 + MARGIN_MS)
}

/**
 * Ends the connections of clients that take nothing if too many answers of a server stall.
 * @returns what is called whenever the system has not taken at once what was written
 */
export function createStallWatch (): (response: ServerResponse) => void {
  /** Answers with a piece that the client has not taken, and since when. The longest stalled ones come first. */
  const stalled = new Map<ServerResponse, number>()
  const watched = new WeakSet<ServerResponse>()
  let timer: NodeJS.Timeout | undefined

  function endLongest (): void {
    if (timer) return
    while (stalled.size > MAX_STALLED) {
      const [response, since] = stalled.entries().next().value!
      const restMs = since + STALL_MS - performance.now()
      if (restMs > 0) {
        timer = setTimeout(again, restMs).unref()
        return
      }
      stalled.delete(response)
      response.destroy()
    }
  }

  function again (): void {
    timer = undefined
    endLongest()
  }

  return response => {
    if (!watched.has(response)) {
      watched.add(response)
      const forget = (): void => {
        stalled.delete(response)
      }
      response.on('drain', forget).once('close', forget)
    }
    if (stalled.has(response)) return
    stalled.set(response, performance.now())
    if (stalled.size > MAX_STALLED) endLongest()
  }
}
