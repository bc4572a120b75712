import { accessSync, closeSync, constants, fstatSync, openSync, readSync, statSync, type Stats } from 'node:fs'
import { stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import sonic from 'sonic-boom'
import { SettingsError } from '../../lib/base/settings-error.ts'
import type { Surroundings } from '../../lib/base/surroundings.ts'

/** How often the path is looked at, and a file that failed is tried again. */
const LOOK_MS = 500
/** Its owner writes, and its group may read. */
const MODE = 0o640

interface AuditFileOptions {
  readonly every: Surroundings['every']
  /** Called for the first line that cannot be written after one that could. */
  readonly onFault: (code: string) => void
  /** Called for the first line that is written again. */
  readonly onRecovered: (lost: number) => void
}

/** Where the records of decisions go. */
export type AuditSink = Awaited<ReturnType<typeof openAuditFile>>

/**
 * Appends lines to a file of its own. Each line is one call of the system, made before the request goes on: the lines
 * of several processes do not mix, and none waits in memory. The path may lead to another file at any time, as after
 * logrotate. After a fault only a line that was written counts as recovery: an empty write to a full disk succeeds.
 * @throws Error with a `code` if the file cannot be opened
 */
export async function openAuditFile (
  path: string,
  { every, onFault, onRecovered }: AuditFileOptions
) {
  /** Undefined after a fault, until it is opened again. */
  let file: ReturnType<typeof openFile> | undefined = openFile(path)
  let written = 0
  let lost = 0
  let fault: string | undefined
  /** The lines that were lost before the present fault. */
  let lostBefore = 0
  let isLooking = false
  let isClosed = false
  const stop = every(LOOK_MS, () => {
    look()
  })

  function fail (error: unknown) {
    file?.close()
    file = undefined
    const isFirst = fault === undefined
    fault = (error as NodeJS.ErrnoException).code!
    if (!isFirst) return
    lostBefore = lost
    onFault(fault)
  }

  function reopen () {
    try {
      const next = openFile(path, fault === undefined)
      file?.close()
      file = next
    } catch (error) {
      fail(error)
    }
  }

  async function look () {
    if (isLooking) return
    isLooking = true
    const found = await stat(path).catch(() => undefined)
    isLooking = false
    if (!isClosed && !file?.isAt(found)) reopen()
  }

  return {
    /** Writes one line, or counts it as lost. */
    write (record: object) {
      const error = file?.write(`${JSON.stringify(record)}\n`)
      if (error) fail(error)
      if (!file) {
        lost++
        return
      }
      written++
      if (fault === undefined) return
      fault = undefined
      onRecovered(lost - lostBefore)
    },
    /** Opens the file anew. */
    reopen,
    /** The lines written and lost since the start, and why the last one could not be written. */
    state: () => ({ written, lost, fault }),
    async close () {
      stop()
      isClosed = true
      await file?.close()
      file = undefined
    }
  }
}

/**
 * @param isPatient whether a line without its end may be one that is being written
 * @throws Error with a `code`
 */
function openFile (path: string, isPatient = true) {
  isThere(path)
  const fd = openSync(path, 'a', MODE)
  const { ino, dev } = fstatSync(fd)
  // SonicBoom's own `reopen` would close a descriptor twice once an opening has failed, and hold back what failed.
  const boom = new sonic.SonicBoom({ fd, sync: true, retryEAGAIN: () => false })
  let error: Error | undefined
  boom.on('error', found => {
    error = found
  })
  let start = endsInLine(path, isPatient) ? '' : '\n'
  return {
    /** Why the line was not written, or undefined if it was. */
    write (line: string): Error | undefined {
      boom.write(start + line)
      start = ''
      return error
    },
    isAt: (found: Stats | undefined) => found?.ino === ino && found.dev === dev,
    /** Flushes it, and resolves when it is closed. */
    close: () => new Promise<void>(resolve => boom.once('close', resolve).once('error', resolve).destroy())
  }
}

/**
 * Whether there is a file at the path.
 * @throws Error with a `code` if there is something else
 */
function isThere (path: string): boolean {
  const known = statSync(path, { throwIfNoEntry: false })
  // To open a pipe would wait for its reader.
  if (known && !known.isFile() && !known.isCharacterDevice()) {
    throw Object.assign(new Error('not a file'), { code: known.isDirectory() ? 'EISDIR' : 'NOT_A_FILE' })
  }
  return known !== undefined
}

const NEWLINE = 0x0a
/** A line of another process is written whole by then, also on a machine that is busy. */
const WRITING_MS = 200
const STEP_MS = 10

/**
 * Whether a file is empty, ends with a line break, or may not be read. A full disk, or a process that was cut off, may
 * have left a part of a line. A file that grows has writers that end their lines: one may be read while it is written.
 */
function endsInLine (path: string, isPatient: boolean): boolean {
  let fd: number
  try {
    fd = openSync(path, 'r')
  } catch {
    return true
  }
  try {
    const last = Buffer.alloc(1)
    const { size } = fstatSync(fd)
    if (size === 0 || readSync(fd, last, 0, 1, size - 1) === 0 || last[0] === NEWLINE) return true
    for (let ms = isPatient ? 0 : WRITING_MS; ms < WRITING_MS; ms += STEP_MS) {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, STEP_MS)
      if (fstatSync(fd).size > size) return true
    }
    return false
  } finally {
    closeSync(fd)
  }
}

/**
 * Whether this process could open the file. It is not made, and nothing is written.
 * @throws SettingsError
 */
export function tryAuditFile (path: string): void {
  try {
    // With the dot, what is no folder is refused.
    if (isThere(path)) accessSync(path, constants.W_OK)
    else accessSync(`${dirname(path)}/.`, constants.W_OK)
  } catch (error) {
    throw unwritable(path, error as NodeJS.ErrnoException)
  }
}

/** Why the service does not start with that path. */
export function unwritable (path: string, { code }: NodeJS.ErrnoException): SettingsError {
  return new SettingsError([
    `AUDIT (audit.to) is ${JSON.stringify(path)}, which cannot be written (${code}); allowed: off, log, or the ` +
    'path of a file'
  ])
}
