import { connect } from 'node:net'

/** The end of the first answer in `text`; -1 while it is not whole. */
const endOfAnswer = text => {
  const head = text.indexOf('\r\n\r\n')
  if (head === -1) return -1
  // RFC 9110 section 8.6: a 204 has no length.
  if (text.startsWith('HTTP/1.1 204')) return head + 4
  const length = text.indexOf('ength: ') // Content-Length, in whichever case.
  if (length === -1 || length > head) throw new Error(`an answer without Content-Length: ${text.slice(0, head)}`)
  const end = head + 4 + Number.parseInt(text.slice(length + 7, length + 15), 10)
  return end <= text.length ? end : -1
}

/**
 * One keep-alive connection with one request on the wire at a time. A plain socket and a reader that looks for the
 * status and only the length: the load generator has to cost less than the cheapest server.
 */
class Connection {
  constructor (port, onAnswer, onLost) {
    this.sentAtMs = 0
    this.rest = ''
    this.onAnswer = onAnswer
    this.socket = connect({
      port,
      host: '127.0.0.1',
      noDelay: true,
      onread: { buffer: Buffer.allocUnsafe(32_768), callback: (size, buffer) => this.read(buffer.latin1Slice(0, size)) }
    })
    this.ready = new Promise((resolve, reject) => this.socket.once('connect', resolve).once('error', reject))
    this.socket.once('close', onLost)
  }

  read (text) {
    const whole = this.rest === '' ? text : this.rest + text
    if (endOfAnswer(whole) === -1) {
      this.rest = whole
      return true
    }
    this.rest = ''
    // "HTTP/1.1 200": the status is the three digits after the ninth character.
    const status = (whole.charCodeAt(9) - 48) * 100 + (whole.charCodeAt(10) - 48) * 10 + whole.charCodeAt(11) - 48
    this.onAnswer(this, status, whole)
    return true
  }

  send (bytes, sentAtMs) {
    this.sentAtMs = sentAtMs
    this.socket.write(bytes)
  }
}

/** Opens connections to one server; `onAnswer` is given to each run. */
export const openConnections = async (port, count) => {
  const open = { onAnswer: undefined, onLost: () => {}, closing: false }
  const connections = Array.from(
    { length: count },
    () =>
      new Connection(port, (connection, status, text) => open.onAnswer(connection, status, text), () => {
        if (!open.closing) open.onLost(new Error('the server closed a connection'))
      })
  )
  await Promise.all(connections.map(connection => connection.ready))
  open.list = connections
  open.close = () => {
    open.closing = true
    for (const connection of connections) connection.socket.destroy()
  }
  return open
}

const percentile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]

const summary = (requests, latenciesMs, elapsedMs, wrong, sample) => {
  const sorted = latenciesMs.sort()
  return {
    requests,
    elapsedMs,
    p50Ms: percentile(sorted, 0.5),
    p99Ms: percentile(sorted, 0.99),
    maxMs: sorted[sorted.length - 1],
    wrong,
    sample
  }
}

const errorOf = text => /error="([a-z_]+)"/.exec(text.slice(0, text.indexOf('\r\n\r\n')))?.[1] ?? null

/** Is this the answer that its kind of request must have? `error` is compared only if the kind names one. */
const isRight = ({ status, error }, gotStatus, text) =>
  gotStatus === status && (error === undefined || gotStatus < 400 || errorOf(text) === error)

/**
 * Closed loop: every connection sends the next request as soon as it has the answer to its last, until `count` are
 * answered. `batch` is gone round when it is shorter than `count`.
 */
export const saturate = (open, { batch, count, expect }) =>
  new Promise((resolve, reject) => {
    const latenciesMs = new Float64Array(count)
    let sent = 0
    let answered = 0
    let wrong = 0
    let sample
    const started = performance.now()
    open.onLost = reject
    open.onAnswer = (connection, status, text) => {
      const now = performance.now()
      latenciesMs[answered++] = now - connection.sentAtMs
      if (!isRight(expect, status, text)) {
        wrong++
        sample ??= text
      }
      if (sent < count) connection.send(batch[sent++ % batch.length], now)
      else if (answered === count) resolve(summary(count, latenciesMs, now - started, wrong, sample))
    }
    for (const connection of open.list.slice(0, count)) connection.send(batch[sent++ % batch.length], performance.now())
  })

const LATE_MS = 1
const WARM_MS = 300 // until this code is compiled; what is due before counts neither as late nor as waiting

/**
 * Open loop: requests leave at random moments (exponential gaps) at `rate` a second however slow the answers are, and a
 * request that finds no free connection has waited since the moment it was due. `lateShare` is the share that left late
 * although a connection was free: the fault of the load generator, not of the server.
 */
export const pace = (open, { batch, count, rate, expect }) =>
  new Promise((resolve, reject) => {
    const dueMs = new Float64Array(count)
    const started = performance.now() + 1
    for (let i = 0, at = started; i < count; i++) dueMs[i] = at += -Math.log(1 - Math.random()) * 1000 / rate
    const latenciesMs = new Float64Array(count)
    const free = [...open.list]
    let sent = 0
    let answered = 0
    let wrong = 0
    let sample
    let late = 0
    let timed = 0
    let starvedAtMs = started
    open.onLost = reject
    open.onAnswer = (connection, status, text) => {
      const now = performance.now()
      answered++
      if (connection.sentAtMs > started + WARM_MS) latenciesMs[timed++] = now - connection.sentAtMs
      free.push(connection)
      if (!isRight(expect, status, text)) {
        wrong++
        sample ??= text
      }
      if (answered === count) {
        resolve({
          ...summary(count, latenciesMs.subarray(0, timed), now - started, wrong, sample),
          lateShare: late / count
        })
      }
    }
    const turn = () => {
      const now = performance.now()
      while (sent < count && dueMs[sent] <= now) {
        if (free.length === 0) {
          starvedAtMs = now
          break
        }
        if (now - Math.max(dueMs[sent], starvedAtMs) > LATE_MS && now > started + WARM_MS) late++
        free.pop().send(batch[sent % batch.length], dueMs[sent++])
      }
      if (answered < count) setImmediate(turn)
    }
    turn()
  })
