import { fork } from 'node:child_process'
import { measureRows } from './compare.js'
import { hostileEvents } from './hostile-events.js'
import { startHoldfast } from './holdfast.js'
import { hasRedis, startRedis } from './processes.js'
import { atFullSize } from './revocation-size.js'
import { revoke } from './revocation-store.js'

const BAD = ['no credentials', 'token signature wrong']
/** Processes of each row: the code that one of them compiles may be some percent faster than that of another. */
const PROCESSES = 3
/**
 * The service with so many cutoffs, which it reads from a Redis: another process has written them. What serves the
 * requests of operators itself has code that fits one kind of request less well, which costs more than the cutoffs do.
 */
const startWith = async (bench, id, cutoffs) => {
  if (!hasRedis()) return bench.skip(id, 'redis-server is not installed')
  const store = await startRedis()
  bench.cleanUp(store.stop)
  const settings = {
    config: { revocation: { operators: { scope: 'revoke' }, store: store.url } },
    probe: '/health/ready'
  }
  const writer = await startHoldfast(bench, id, settings)
  if (writer === null) return null
  await revoke(bench, writer, cutoffs)
  await writer.stop()
  return startHoldfast(bench, id, settings)
}

/** A Bearer token that the service knows already: without the section, with it, and with cutoffs of others. */
const ROWS = [
  { id: 'revocation-off', label: 'no section `revocation`', start: bench => startHoldfast(bench, 'revocation-off') },
  { id: 'revocation-0', label: '0 cutoffs', start: bench => startWith(bench, 'revocation-0', 0) },
  { id: 'revocation-100000', label: '100,000 cutoffs', start: bench => startWith(bench, 'revocation-100000', 100_000) }
].map(row => ({ ...row, kind: 'bearer', bad: BAD, quick: true }))

/** Apart from the service, whose requests leave garbage of their own. */
const measureMemory = () =>
  new Promise((resolve, reject) => {
    const child = fork(new URL('cutoffs.js', import.meta.url), {
      execArgv: ['--expose-gc'],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc']
    })
    child.once('message', resolve).once('exit', code => reject(new Error(`cutoffs.js ended with ${code}`)))
  })

const average = figures =>
  Object.fromEntries(
    Object.entries(figures[0]).map(([name, value]) => [
      name,
      typeof value === 'number'
        ? figures.reduce((sum, one) => sum + one[name], 0) / figures.length
        : value
    ])
  )

export const revocation = async bench => {
  const processes = await measureRows(bench, Array.from({ length: PROCESSES }, () => ROWS).flat())
  const rows = ROWS.map(({ id }) => processes.map(({ figures }) => figures).filter(figures => figures.id === id))
    .filter(({ length }) => length > 0).map(average)
  const memory = await measureMemory()
  bench.say(
    `${memory.number} cutoffs: ${memory.bytesEach.toFixed(0)} bytes a user, ` +
      `${memory.sessionBytesEach.toFixed(0)} a session`
  )
  await bench.stopServers()
  const size = await atFullSize(bench)
  await bench.stopServers()
  return { rows, memory, size, hostile: await hostileEvents(bench) }
}
