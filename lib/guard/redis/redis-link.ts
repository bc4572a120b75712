import { Cluster, Command, Redis, type ClusterOptions, type RedisOptions } from 'ioredis'
import { faultOf, type MemoryAnswer } from './redis-faults.ts'
import type { RedisTarget } from './redis-url.ts'

/** Receives the events of the connection. Errors are passed on as the client made them. */
export interface LinkListeners {
  ready (): void
  error (error: Error): void
  close (): void
}

/** A command to Redis. Numbers are sent as text. Rejects if there is no answer. */
export type RedisCall = (command: string, ...args: ReadonlyArray<string | number>) => Promise<unknown>

export type RedisLink = ReturnType<typeof openRedisLink>

const CONNECT_TIMEOUT_MS = 500
/**
 * A connection is dropped if a command waits this long for a byte. It is longer than a record may take, so a stall
 * causes no reconnection.
 */
const SILENCE_MS = 500
const MAX_RETRY_MS = 500
const READONLY_RECONNECT_MS = 1000

/** Opens a connection that repairs itself, with ioredis. Returns while the connection is still being made. */
export function openRedisLink (target: RedisTarget, listeners: LinkListeners, steadyMs: () => number) {
  const client = target.cluster
    ? new Cluster([...target.hosts], clusterOptions(target))
    : new Redis(clientOptions(target, steadyMs))
  if (client instanceof Cluster) client.on('+node', endAtError)
  else endAtError(client)
  const uncork = (stream: Redis['stream']) => stream.uncork()
  client.on('ready', () => listeners.ready())
  client.on('error', (error: Error) => {
    listeners.error(error)
    // Without this the client would go on in database 0.
    if (faultOf(error) === 'database') client.disconnect(true)
  })
  client.on('close', () => listeners.close())

  let closed = false
  let restart: NodeJS.Timeout
  // If a connection is dropped while the client asks a Sentinel, the client stops reconnecting for good.
  client.on('end', () => {
    if (closed) return
    restart = setTimeout(() => {
      client.connect().catch(listeners.error)
    }, MAX_RETRY_MS).unref()
  })

  return {
    /** Whether a command would be sent now. If not, a command gets an error at once. */
    get ready (): boolean {
      return client.status === 'ready'
    },
    call: ((command, ...args) => (client as Redis).call(command, ...args)) as RedisCall,
    /**
     * `SET key 1 EX ttl [NX]`. The reply is `OK`, or null if the key existed. Commands of one turn of the event loop
     * are sent in one packet.
     */
    set (
      key: string,
      ttlSeconds: number,
      ifAbsent: boolean,
      done: (error: Error | null | undefined, reply?: unknown) => void
    ) {
      const { stream } = client as Redis
      if (stream?.writable && stream.writableCorked === 0) {
        stream.cork()
        setImmediate(uncork, stream)
      }
      const args = ifAbsent ? [key, '1', 'EX', String(ttlSeconds), 'NX'] : [key, '1', 'EX', String(ttlSeconds)]
      client.sendCommand(new Command('set', args, { replyEncoding: 'utf8' }, done))
    },
    /** `INFO memory` of the server, or of each master of a cluster. */
    memoryInfo (done: (answers: readonly MemoryAnswer[]) => void) {
      const servers = client instanceof Cluster ? client.nodes('master') : [client]
      Promise.all(
        servers.map(server => server.info('memory').then(info => ({ info }), (error: Error) => ({ error })))
      ).then(done)
    },
    /** Closes it for good. */
    close () {
      closed = true
      clearTimeout(restart)
      client.disconnect()
    }
  }
}

/**
 * Ends each connection at its first error. A server that refuses a certificate after the handshake, as TLS 1.3 does,
 * makes Node say so and leave the connection open. The client hears one error of it; the next would end the process.
 */
function endAtError (client: Redis): Redis {
  client.on('connect', () => {
    const { stream } = client
    stream.on('error', () => stream.destroy())
  })
  // A cluster asks for its nodes through these.
  const duplicate = client.duplicate.bind(client)
  client.duplicate = options => endAtError(duplicate(options))
  return client
}

/** The options of each connection to a server, in a cluster or not. */
function connectionOptions ({ tls, files, username, password }: RedisTarget): RedisOptions {
  return {
    username,
    password,
    tls: tls ? { ...files } : undefined,
    // Every server and proxy supports RESP2. Only its answers to SET are read here.
    protocol: 2,
    disableClientInfo: true,
    // The client would wait for an answer to INFO, which a server may refuse. The store sends INFO itself.
    enableReadyCheck: false,
    connectTimeout: CONNECT_TIMEOUT_MS,
    disconnectTimeout: CONNECT_TIMEOUT_MS,
    socketTimeout: SILENCE_MS,
    // A command that was sent may have been recorded. If it were sent again, the proof would look like its own replay.
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0
  }
}

/** The options of a client of one server, or of Sentinels, which name the server. */
function clientOptions (target: RedisTarget, steadyMs: () => number): RedisOptions {
  const options = {
    ...connectionOptions(target),
    db: target.db,
    enableOfflineQueue: false,
    retryStrategy: retryAfterMs,
    reconnectOnError: leaveReplica(steadyMs)
  }
  if (target.sentinel === undefined) return { ...options, ...target.hosts[0]! }
  return {
    ...options,
    // With Sentinels this check finds out whether the server is the master by now. Sentinels themselves need INFO.
    enableReadyCheck: true,
    maxLoadingRetryTime: MAX_RETRY_MS,
    name: target.sentinel,
    sentinels: [...target.hosts],
    sentinelUsername: target.sentinelUsername,
    sentinelPassword: target.sentinelPassword,
    sentinelTLS: target.tls ? { ...target.files } : undefined,
    enableTLSForSentinelMode: target.tls,
    sentinelCommandTimeout: CONNECT_TIMEOUT_MS,
    sentinelRetryStrategy: retryAfterMs,
    // A Sentinel reports a new master at once, so the client leaves an old master that hangs.
    failoverDetector: true
  }
}

function clusterOptions (target: RedisTarget): ClusterOptions {
  return {
    redisOptions: connectionOptions(target),
    // A certificate is for a name: the client would ask a node by the address of its name.
    dnsLookup: (name, done) => done(null, name),
    enableOfflineQueue: false,
    clusterRetryStrategy: retryAfterMs,
    slotsRefreshTimeout: CONNECT_TIMEOUT_MS,
    slotsRefreshInterval: 5000,
    // As above, no command is sent twice. Only a redirection is followed, because it records nothing.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0
  }
}

/** Leaves a server that has become a replica, but not for each refusal of that server. */
function leaveReplica (steadyMs: () => number): (error: Error) => boolean {
  let leftAt = 0
  return error => {
    if (!error.message.startsWith('READONLY') || steadyMs() - leftAt < READONLY_RECONNECT_MS) return false
    leftAt = steadyMs()
    return true
  }
}

/** The wait before an attempt to connect again, in milliseconds. `attempt` is 1 for the first one. */
export function retryAfterMs (attempt: number): number {
  return Math.min(25 * 2 ** Math.min(attempt, 10), MAX_RETRY_MS)
}
