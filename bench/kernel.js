import { readFileSync, readdirSync, readlinkSync } from 'node:fs'

/** @typedef {{ totalNs: number, mainNs: number }} CpuTime */

const TICK_MS = 10 // USER_HZ is 100 on every Linux that Node supports.

const runTimeNs = path => {
  try {
    return Number(readFileSync(path, 'latin1').split(' ', 1)[0])
  } catch {
    return 0 // The thread ended between the listing and the reading.
  }
}

/** CPU time that the kernel has charged to a process so far: all of its threads, and only its main thread. */
export const cpuTime = pid => {
  let totalNs = 0
  for (const task of readdirSync(`/proc/${pid}/task`)) totalNs += runTimeNs(`/proc/${pid}/task/${task}/schedstat`)
  return { totalNs, mainNs: runTimeNs(`/proc/${pid}/task/${pid}/schedstat`) }
}

/** How long a core was in use so far, in ms, by any process; time stolen by the host counts as use. */
export const coreBusyMs = core => {
  const line = readFileSync('/proc/stat', 'latin1').split('\n').find(text => text.startsWith(`cpu${core} `))
  const [user, nice, system, , , irq, softirq, steal] = line.split(' ').slice(1).map(Number)
  return (user + nice + system + irq + softirq + steal) * TICK_MS
}

/** Resident memory in bytes: `now`, and the most it ever was. */
export const residentBytes = pid => {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1')
  const field = name => Number(status.split(`${name}:`)[1].trim().split(' ', 1)[0]) * 1024
  return { now: field('VmRSS'), peak: field('VmHWM') }
}

const targetOf = path => {
  try {
    return readlinkSync(path)
  } catch {
    return '' // Closed between the listing and the reading.
  }
}

/** The sockets that a process holds open, each by a name of its own, whatever the other side knows of it. */
export const openSockets = pid =>
  readdirSync(`/proc/${pid}/fd`).map(fd => targetOf(`/proc/${pid}/fd/${fd}`)).filter(name => name.startsWith('socket:'))

export const machine = () => {
  const model = readFileSync('/proc/cpuinfo', 'latin1').split('\n').find(line => line.startsWith('model name'))
  return {
    cpu: model?.split(':')[1].trim() ?? 'unknown',
    node: process.version,
    openssl: process.versions.openssl,
    v8: process.versions.v8
  }
}
