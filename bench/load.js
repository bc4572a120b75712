import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { createKinds } from './requests.js'
import { openConnections, pace, saturate } from './wire.js'

/**
 * The load generator, a process of its own. It gets a message for what to prepare (requests are built and signed before
 * the clock runs) and one for what to run, and answers each.
 */
const SHARED = 64 // Requests of a kind that may be sent again are built this often and gone round.
const SETTLE_MS = 30 // The server accepts new connections before it is measured.
let kinds
let streams = []

const build = (kind, count) =>
  Array.from({ length: kind.fresh ? count : Math.min(count, SHARED) }, (_, i) => kind.make(i))

const once = async (port, bytes, expect) => {
  const open = await openConnections(port, 1)
  try {
    return await saturate(open, { batch: [bytes], count: 1, expect })
  } finally {
    open.close()
  }
}

/** Sends one answerable request and takes the nonce that the refusal carries. */
const fetchNonce = async port => {
  const { sample } = await once(port, kinds.kinds.dpop.make(0), { status: 0 })
  const nonce = /^dpop-nonce: (.+)$/im.exec(sample)?.[1]
  if (nonce === undefined) throw new Error('the server gave no nonce')
  kinds.useNonce(nonce)
}

const commands = {
  init: provider => {
    kinds = createKinds(provider)
  },

  /**
   * Starts the upstream of a proxy, here and not in a process of its own: a generator that waits for the next moment to
   * send at would keep that process from the core for milliseconds. Returns its port.
   */
  upstream: () =>
    new Promise(resolve => {
      const server = createServer((request, response) => {
        response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': 2 }).end('{}')
      })
      server.listen(0, '127.0.0.1', () => resolve(server.address().port))
    }),

  /** Builds the requests of a run and opens its connections. */
  prepare: async ({ port, wanted }) => {
    streams = []
    for (const { name, count, connections, rate, anyError, status } of wanted) {
      const kind = kinds.kinds[name]
      if (name.startsWith('dpop-nonce')) await fetchNonce(port)
      const batch = build(kind, count)
      const expect = { status: status ?? kind.status, error: anyError ? undefined : kind.error }
      if (kind.primed && status === undefined) {
        const open = await openConnections(port, 1)
        const { wrong } = await saturate(open, { batch, count: batch.length, expect: { status: 200 } })
        open.close()
        if (wrong > 0) throw new Error(`${name}: not accepted the first time`)
      }
      streams.push({ batch, count, rate, expect, open: await openConnections(port, Math.min(connections, count)) })
    }
    globalThis.gc()
    await sleep(SETTLE_MS)
  },

  run: async () => {
    const results = await Promise.all(
      streams.map(stream => (stream.rate === undefined ? saturate : pace)(stream.open, stream))
    )
    for (const { open } of streams) open.close()
    streams = []
    return results
  },

  /** One request of a kind and its answer. */
  ask: async ({ port, name }) => {
    const kind = kinds.kinds[name]
    const bytes = kind.make(0)
    if (kind.primed) await once(port, bytes, { status: 0 })
    const { sample } = await once(port, bytes, { status: 0 })
    return { status: Number(sample.slice(9, 12)), text: sample }
  },

  likes: () =>
    Object.entries(kinds.kinds).map(([name, { like, status, fresh, large, of }]) => ({
      name,
      like,
      status,
      fresh,
      large,
      of
    }))
}

process.on('message', async ({ command, options }) => {
  try {
    process.send({ value: await commands[command](options) ?? null })
  } catch (error) {
    process.send({ error: error.stack })
  }
})
process.on('disconnect', () => process.exit())
