import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import type { Surroundings } from '../lib/surroundings.ts'

/** The clocks, random numbers and timers of this process. */
export const processSurroundings: Surroundings = {
  wallMs: () => Date.now(),
  steadyMs: () => performance.now(),
  random: () => Math.random(),
  randomBytes,
  after (ms, run) {
    const timer = setTimeout(run, ms).unref()
    return () => clearTimeout(timer)
  },
  every (ms, run) {
    const timer = setInterval(run, ms).unref()
    return () => clearInterval(timer)
  },
  readFile: readRegularFile,
  environment: name => process.env[name]
}

/** Never waits for the other end of a pipe, and never reads without end. */
async function readRegularFile (path: string, maxBytes: number): Promise<Uint8Array> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const stats = await file.stat()
    if (!stats.isFile()) throw fault('NOT_A_FILE')
    if (stats.size > maxBytes) throw fault('TOO_LARGE')
    return await file.readFile()
  } finally {
    await file.close()
  }
}

const fault = (code: string): Error => Object.assign(new Error(code), { code })
