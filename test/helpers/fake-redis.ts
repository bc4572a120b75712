import { once } from 'node:events'
import { createServer as createTcpServer, type AddressInfo, type Socket } from 'node:net'
import { createServer as createTlsServer, type TlsOptions } from 'node:tls'
import { closeWith } from './listen.ts'

/** What a server answers to one command: bytes of RESP2, null to hang, or the end of the connection. */
export type Reply = string | null | 'close'

export interface FakeRedis {
  port: number
  /** Taken so far. */
  connections: number
  /** Of these, the ones that are open. */
  open: number
  /** Commands received, each as its words; the name in capitals. */
  commands: string[][]
  /** Commands in each packet received. */
  packets: number[]
  /** Asked before the server's own answer is given; undefined leaves it to that one. */
  override: ((command: string[]) => Reply | undefined) | undefined
  /** Sent to each new connection at once, as servers of other protocols do. */
  greeting: string
  /** Cuts all connections and stops listening. */
  stop (): Promise<void>
  /** Listens again, on the same port. */
  restart (): Promise<void>
}

export const bulk = (text: string) => `$${Buffer.byteLength(text)}\r\n${text}\r\n`
const list = (items: string[]) => `*${items.length}\r\n${items.join('')}`

/**
 * A server on loopback that speaks as much RESP2 as the replay store needs, and misbehaves on demand. Keys never
 * expire.
 */
export async function startFakeRedis (tls?: TlsOptions): Promise<FakeRedis> {
  const sockets = new Set<Socket>()
  const keys = new Set<string>()
  let connections = 0
  const server = tls ? createTlsServer(tls) : createTcpServer()
  server.on(tls ? 'secureConnection' : 'connection', serve)
  server.on('tlsClientError', () => {})

  function serve (socket: Socket) {
    connections++
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket)).on('error', () => socket.destroy())
    if (fake.greeting) socket.write(fake.greeting)
    let text = ''
    socket.on('data', chunk => {
      text += chunk.toString('latin1')
      const { commands, rest } = parseCommands(text)
      text = rest
      fake.packets.push(commands.length)
      fake.commands.push(...commands)
      const replies = commands.map(command => {
        const reply = fake.override?.(command)
        return reply === undefined ? answer(command) : reply
      })
      if (replies.includes('close')) return socket.destroy()
      socket.write(replies.filter(reply => reply !== null).join(''))
    })
  }

  function answer ([name, ...words]: string[]) {
    if (name === 'INFO') {
      return bulk('# Memory\r\nloading:0\r\nrole:master\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n')
    }
    if (name === 'SET') {
      if (words.includes('NX') && keys.has(words[0]!)) return '$-1\r\n'
      keys.add(words[0]!)
      return '+OK\r\n'
    }
    if (name === 'CLUSTER' && words[0]!.toUpperCase() === 'SLOTS') {
      return list([
        list([':0\r\n', ':16383\r\n', list([bulk('127.0.0.1'), `:${fake.port}\r\n`, bulk('a'.repeat(40))])])
      ])
    }
    if (name === 'CLUSTER') return bulk('cluster_state:ok\r\n')
    if (name === 'SENTINEL' && words[0] === 'get-master-addr-by-name') {
      return list([bulk('127.0.0.1'), bulk(String(fake.port))])
    }
    if (name === 'SENTINEL') return list([])
    return '+OK\r\n'
  }

  async function listen (port: number) {
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
  }

  await listen(0)
  const { port } = server.address() as AddressInfo
  const fake: FakeRedis = {
    port,
    get connections () {
      return connections
    },
    get open () {
      return sockets.size
    },
    commands: [],
    packets: [],
    override: undefined,
    greeting: '',
    async stop () {
      if (server.listening) await closeWith(server, sockets)
    },
    restart: () => listen(port)
  }
  return fake
}

/** Splits what has come so far into whole commands, arrays of bulk strings, and the rest. */
function parseCommands (text: string) {
  const commands: string[][] = []
  for (;;) {
    const end = text.indexOf('\r\n')
    if (!text.startsWith('*') || end < 0) return { commands, rest: text }
    const words: string[] = []
    let at = end + 2
    for (let left = Number(text.slice(1, end)); left > 0; left--) {
      const lineEnd = text.indexOf('\r\n', at)
      const length = Number(text.slice(at + 1, lineEnd))
      const next = lineEnd + 2 + length + 2
      if (lineEnd < 0 || text.length < next) return { commands, rest: text }
      words.push(text.slice(lineEnd + 2, next - 2))
      at = next
    }
    commands.push([words[0]!.toUpperCase(), ...words.slice(1)])
    text = text.slice(at)
  }
}
