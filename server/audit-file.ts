import { accessSync, closeSync, constants, fchmodSync, fstatSync, openSync, readSync, statfsSync, statSync, writeSync } from 'node:fs'
import type { Stats } from 'node:fs'
import { stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { SettingsError } from '../lib/settings/problems.ts'
import type { Surroundings } from '../lib/surroundings.ts'

/** How often the path is looked at, and a file that failed is tried again. */
const LOOK_MS = 500
/** Its owner writes, and its group may read. */
const MODE = 0o640

export interface AuditFileOptions {
  readonly every: Surroundings['every']
  /** Called for the first line that cannot be written after one that could. */
  readonly onFault: (code: string) => void
  /** Called for the first line that can be written again. */
  readonly onRecovered: (lost: number) => void
}

/** Where the records of decisions go. */
export interface AuditSink {
  /** Writes one line. False if it cannot be written. */
  write (record: object): boolean
  /** Opens the file anew. */
  reopen (): void
  /** The lines written and lost since the start, and why none can be written now. */
  state (): { readonly written: number, readonly lost: number, readonly fault: string | undefined }
  close (): Promise<void>
}

/**
 * Appends lines to a file of its own. Each line is one call of the system, made before the request goes on: the lines
 * of several processes do not mix, and none waits in memory. The path may lead to another file at any time, as after
 * logrotate.
 * @throws Error with a `code` if the file cannot be opened
 */
export async function openAuditFile (
  path: string,
  { every, onFault, onRecovered }: AuditFileOptions
): Promise<AuditSink> {
  /** Undefined if there is none to write to. One with a fault may be there, for the rest of its last line. */
  let file: AuditFile | undefined = new AuditFile(path)
  let written = 0
  let lost = 0
  let fault: string | undefined
  /** The lines that were lost before the fault that was reported. Undefined while lines are written. */
  let lostBefore: number | undefined
  let isLooking = false
  const stop = every(LOOK_MS, () => {
    look(false)
  })

  function fail (error: unknown): void {
    fault = (error as NodeJS.ErrnoException).code!
    if (lostBefore !== undefined) return
    lostBefore = lost
    onFault(fault)
  }

  function succeed (): void {
    written++
    if (lostBefore === undefined) return
    onRecovered(lost - lostBefore)
    lostBefore = undefined
  }

  function drop (): void {
    // The rest of its last line has no place any more.
    if (file?.isCut) lost++
    file?.close()
    file = undefined
  }

  function renew (): void {
    let next: AuditFile | undefined
    try {
      next = new AuditFile(path)
      next.probe()
    } catch (error) {
      next?.close()
      drop()
      return fail(error)
    }
    drop()
    file = next
    fault = undefined
  }

  async function look (isAsked: boolean): Promise<void> {
    if (isLooking) return
    isLooking = true
    const found = await stat(path).catch(() => undefined)
    if (!isLooking) return
    isLooking = false
    const isHere = file?.isAt(found) === true
    if (isHere && file!.isCut) {
      if (file!.finish()) return
      fault = undefined
      succeed()
    } else if (isAsked || !isHere || fault !== undefined) renew()
  }

  return {
    write (record) {
      if (file && fault === undefined) {
        const error = file.write(`${JSON.stringify(record)}\n`)
        if (!error) {
          succeed()
          return true
        }
        fail(error)
        // What has begun gets its end when there is room.
        if (file.isCut) return false
        drop()
      }
      lost++
      return false
    },
    reopen: () => {
      look(true)
    },
    state: () => ({ written, lost, fault }),
    async close () {
      stop()
      isLooking = false
      file?.finish()
      file?.close()
      file = undefined
    }
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
    throw failure(known.isDirectory() ? 'EISDIR' : 'NOT_A_FILE')
  }
  return known !== undefined
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

const failure = (code: string): Error => Object.assign(new Error(code), { code })

/** One open file. A line that was written in part is kept until its rest can be written. */
class AuditFile {
  readonly #path: string
  readonly #fd: number
  readonly #stats: Stats
  #rest = Buffer.alloc(0)

  /** @throws Error with a `code` */
  constructor (path: string) {
    isThere(path)
    this.#path = path
    this.#fd = openSync(path, 'a', MODE)
    this.#stats = fstatSync(this.#fd)
    // A process that was cut off may have left a part of a line.
    if (this.#stats.isFile() && !endsWithLine(path)) this.write('\n')
  }

  /** Whether its last line has no end yet. */
  get isCut (): boolean {
    return this.#rest.length > 0
  }

  isAt (found: Stats | undefined): boolean {
    return found?.ino === this.#stats.ino && found.dev === this.#stats.dev
  }

  /** Why it failed. Undefined if it was written. */
  write (text: string): unknown {
    const line = Buffer.from(text)
    this.#rest = line
    const error = this.finish()
    // Nothing has begun that would need an end.
    if (this.#rest.length === line.length) this.#rest = line.subarray(line.length)
    return error
  }

  /** Writes the rest of a line that is cut. */
  finish (): unknown {
    try {
      while (this.isCut) this.#rest = this.#rest.subarray(writeSync(this.#fd, this.#rest))
      return undefined
    } catch (error) {
      return error
    }
  }

  /**
   * Whether a line could be written, as far as can be said without one.
   * @throws Error with a `code`
   */
  probe (): void {
    if (!this.#stats.isFile()) writeSync(this.#fd, '')
    else if (statfsSync(this.#path).bavail === 0) throw failure('ENOSPC')
  }

  close (): void {
    closeSync(this.#fd)
  }
}

const NEWLINE = 0x0a
/** Milliseconds for a line that another process may be writing, if the system cannot be asked to wait for it. */
const LINE_MS = 50

/**
 * Whether a file is empty or ends with a line break, or may not be read, or grows: then its writers are alive, and end
 * their lines.
 */
function endsWithLine (path: string): boolean {
  let fd: number
  try {
    fd = openSync(path, 'r')
  } catch {
    return true
  }
  try {
    const last = Buffer.alloc(1)
    const { size, mode } = fstatSync(fd)
    if (size === 0) return true
    readSync(fd, last, 0, 1, size - 1)
    if (last[0] === NEWLINE) return true
    awaitWriters(fd, mode)
    return fstatSync(fd).size !== size
  } finally {
    closeSync(fd)
  }
}

/** Returns when what was being written to a file has been written: no mode is set meanwhile, also if it is the same. */
function awaitWriters (fd: number, mode: number): void {
  try {
    fchmodSync(fd, mode)
  } catch {
    // It is another user's file.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LINE_MS)
  }
}
