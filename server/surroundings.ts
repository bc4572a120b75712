import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import type { CertificateReader } from '../lib/guard/certificate/client-certificate.ts'
import type { Transport } from '../lib/guard/provider/transport.ts'
import type { Revocations } from '../lib/revocation/revocations.ts'
import type { Surroundings } from '../lib/base/surroundings.ts'

/** The clocks, random numbers and timers of this process. */
export const processSurroundings: Surroundings = {
  now: () => Date.now() / 1000,
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
  // Others are members of each object.
  environment: name => Object.hasOwn(process.env, name) ? process.env[name] : undefined
}

/** Never waits for the other end of a pipe, and never reads without end: a file of /proc may state the size 0. */
async function readRegularFile (path: string, maxBytes: number): Promise<Uint8Array> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    if (!(await file.stat()).isFile()) throw fault('NOT_A_FILE')
    const bytes = Buffer.alloc(maxBytes + 1)
    let size = 0
    for (let isMore = true; isMore && size <= maxBytes;) {
      const { bytesRead } = await file.read(bytes, size, bytes.length - size)
      size += bytesRead
      isMore = bytesRead > 0
    }
    if (size > maxBytes) throw fault('TOO_LARGE')
    return bytes.subarray(0, size)
  } finally {
    await file.close()
  }
}

const fault = (code: string): Error => Object.assign(new Error(code), { code })

/**
 * What replaces the process and the network in a test: a clock of its own, and an identity provider in memory. Only
 * `createTestIssuer` of `holdfast/testing` makes them.
 */
export interface TestDoubles {
  readonly surroundings: Surroundings
  readonly transport: Transport
  /** Finds the certificate of a request if the app does not say where: a test has no connection with TLS. */
  readonly readCertificate: CertificateReader
  /** The revocations of the open apps. Each app adds its own. */
  readonly revocations: Set<Pick<Revocations, 'append' | 'namesOf'>>
}

/**
 * The key under which options carry test doubles. It is a symbol, so neither a configuration file nor an environment
 * can set it, and a copy of the options keeps it. It is registered, because the app may have the issuer from another
 * copy of the package.
 */
export const kTestDoubles = Symbol.for('holdfast.testDoubles')

/** Options or an app, which may carry test doubles. */
export interface MayHaveTestDoubles {
  readonly [kTestDoubles]?: TestDoubles
}
