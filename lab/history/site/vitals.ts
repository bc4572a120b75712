import { readdirSync } from 'node:fs'
import { request } from 'node:http'

export interface Vitals {
  descriptors: number
  timers: number
  heapMb: number
  rssMb: number
}

/**
 * How much more than at the start an instance may have at the end. Caches of tokens and keys fill up in between; kept
 * connections come and go.
 */
const MAY_GROW = { descriptors: 25, timers: 25, heapMb: 15, rssMb: 120 }

export function findGrown (name: string, before: Vitals, after: Vitals): string[] {
  return (Object.keys(MAY_GROW) as Array<keyof Vitals>)
    .filter(sign => after[sign] > before[sign] + MAY_GROW[sign])
    .map(sign => `${sign} of ${name} have grown from ${before[sign]} to ${after[sign]}`)
}

/** Asks the part of an instance that preload.js is. */
export async function control (
  socketPath: string,
  path: string
): Promise<{ timers: number, heapBytes: number, rssBytes: number }> {
  return new Promise((resolve, reject) => {
    const asked = request({ socketPath, path, agent: false, timeout: 5000 }, async response => {
      try {
        let text = ''
        for await (const chunk of response) text += chunk
        resolve(JSON.parse(text))
      } catch (error) {
        reject(error)
      }
    })
    asked.on('timeout', () => asked.destroy(new Error('no answer'))).on('error', reject).end()
  })
}

const MB = 1e6

export async function readVitals (socketPath: string, pid: number): Promise<Vitals> {
  const { timers, heapBytes, rssBytes } = await control(socketPath, '/vitals')
  return {
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    timers,
    heapMb: Math.round(heapBytes / MB),
    rssMb: Math.round(rssBytes / MB)
  }
}
