import { createRequire } from 'node:module'
import type { Dispatcher } from 'undici'
import { printable } from '../../base/printable.ts'
import { failureOf, ProviderFailure, type FailureFacts } from './provider-failure.ts'
import { parseNoProxy, proxyUrl } from './proxies.ts'
import { isLoopbackHttp } from './provider-url.ts'

const require = createRequire(import.meta.url)
/**
 * undici is loaded at the first fetch, when the service already answers: loading it takes longer than loading all of
 * the code here.
 */
const undici = (): typeof import('undici') => require('undici')

/** The answer of the provider: any status except a redirect, and the whole body. */
export interface ProviderAnswer {
  readonly status: number
  readonly body: Buffer
  /** Whether the body is only the beginning of one that is too large. */
  readonly isCut?: boolean
  /** By their names in lower case. */
  readonly headers?: Readonly<Record<string, string | string[] | undefined>>
  /** What a failure to use this answer says of it. */
  readonly facts?: FailureFacts
}

/**
 * What is sent to the provider beside a plain GET: a form unless the headers say another type, and headers beside the
 * usual ones.
 */
export interface ProviderRequest {
  /** POST unless given. */
  readonly method?: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  readonly headers: Readonly<Record<string, string>>
  /** Left out for GET and DELETE. */
  readonly body?: string
  /** Whether an answer that is too large is cut, and no failure. */
  readonly isCuttable?: boolean
}

/** One session with the provider: a few requests under one deadline. */
export interface ProviderSession {
  /** One request: a GET unless `request` is given. Rejects with ProviderFailure. */
  send (url: string, request?: ProviderRequest): Promise<ProviderAnswer>
  /** Cuts every running request and closes every connection of this session. */
  close (): void
}

export interface Transport {
  /** @param onEnd called once, when the session is closed or its deadline has passed */
  open (onEnd?: () => void): ProviderSession
  /** Closes the connections that are kept between sessions. */
  close (): void
}

export interface TransportOptions {
  /**
   * URLs of proxies, as in HTTP_PROXY and HTTPS_PROXY. Without the second, the first is used for both. `http:` on
   * loopback uses none.
   */
  httpProxy?: string
  httpsProxy?: string
  /**
   * As NO_PROXY: hosts, addresses and CIDRs, the first two optionally with a port, separated by commas or spaces. `*`
   * means all hosts.
   */
  noProxy?: string
  /** PEM of certificate authorities to trust instead of the system's. */
  ca?: string
  /** Milliseconds for the whole session, from `open` to the last byte of the last body. */
  deadlineMs?: number
  /** Bytes of one body, after decoding. */
  maxBytes?: number
  /** Whether sessions share connections, which are then kept open for a few seconds. For many small sessions. */
  keepAlive?: boolean
}

/**
 * The types of JSON that providers have for their documents, and any other if there is nothing else: a server that
 * negotiates and has a key set only as `application/jwk-set+json` (RFC 7517 section 8.5) answers 406 if it is not asked
 * for that.
 */
const ANY_JSON = 'application/json, application/jwk-set+json, */*;q=0.1'

/**
 * How long an address may take to connect before the next one of its host is tried. Node would give it 250 ms, so that
 * a slow handshake beside an address without a route would fail for good. The deadline has room for a dead address of
 * each of two hosts.
 */
const CONNECT_ATTEMPT_MS = 2000

/**
 * The codings of a body, without those that leave it as it is. Names have no case (RFC 9110 section 8.4.1), and a
 * header may be empty.
 */
function codingsOf (header: string | string[] | undefined): string {
  const names = [header ?? []].flat().join().split(',').map(name => name.trim())
  return names.filter(name => !/^(?:identity)?$/i.test(name)).join(', ')
}

/** An abandoned body still emits its error, but the error is no longer needed. */
const ignore = () => {}

/**
 * The connection to the identity provider: HTTP proxies, except for `http:` on loopback, TLS always checked, no
 * redirects, one deadline for the whole session, which a slow drip cannot stretch, and a limit on decoded bytes. A
 * compressed bomb is never read: nothing compressed is asked for, and a `Content-Encoding` is refused before the first
 * byte of the body.
 *
 * Unless connections are kept, each session opens its own and closes all of them. So a connection or a proxy that
 * hangs cannot delay the next session, and nothing lives longer than the deadline.
 * @throws TypeError for a proxy that is not a URL
 */
export function createTransport (options: TransportOptions = {}): Transport {
  const { ca, noProxy = '', deadlineMs = 5000, maxBytes: maxResponseSize = 1024 * 1024, keepAlive = false } = options
  const isBypassed = parseNoProxy(noProxy)
  const proxy = proxyUrl(options.httpsProxy) ?? proxyUrl(options.httpProxy)
  // This is set explicitly, so that NODE_TLS_REJECT_UNAUTHORIZED=0 does not switch the check off for the keys.
  const tls = { rejectUnauthorized: true, timeout: deadlineMs, autoSelectFamilyAttemptTimeout: CONNECT_ATTEMPT_MS, ca }

  let kept: ReturnType<typeof openAgents> | undefined
  function openAgents () {
    const { Agent, Pool, ProxyAgent } = undici()
    const clientFactory = (origin: URL, options: object) => askOnce(new Pool(origin, options))
    const tunnel = { requestTls: tls, proxyTls: tls, maxResponseSize, clientFactory }
    return {
      direct: new Agent({ connect: tls, maxResponseSize }),
      proxied: proxy === undefined ? undefined : new ProxyAgent({ uri: proxy, ...tunnel })
    }
  }

  /** The proxy that is called for a URL. */
  function proxyOf (url: URL) {
    // Without TLS a proxy could answer with its own keys, and the loopback of a proxy is another machine.
    return isLoopbackHttp(url) || isBypassed(url) ? undefined : proxy
  }

  function open (onEnd?: () => void): ProviderSession {
    const agents = keepAlive ? kept ??= openAgents() : openAgents()
    const abort = new AbortController()
    // The deadline races with the request: undici obeys the signal only once it has a connection, and would wait for a
    // proxy that hangs.
    const over = new Promise<never>((_resolve, reject) => {
      abort.signal.onabort = () => {
        reject(new ProviderFailure('deadline'))
        onEnd?.()
      }
    })
    over.catch(ignore)
    const timer = setTimeout(close, deadlineMs)

    function close () {
      clearTimeout(timer)
      abort.abort()
      if (!keepAlive) destroy(agents)
    }

    async function send (url: string, request?: ProviderRequest): Promise<ProviderAnswer> {
      try {
        return await Promise.race([over, read(url, request)])
      } catch (error) {
        throw failureOf(error).with(factsOf(url))
      }
    }

    function factsOf (text: string): FailureFacts {
      const proxy = proxyOf(new URL(text))
      return { url: printable(text), proxy: proxy && new URL(proxy).host }
    }

    async function read (url: string, request: ProviderRequest | undefined): Promise<ProviderAnswer> {
      const { statusCode: status, headers, body } = await undici().request(url, {
        dispatcher: proxyOf(new URL(url)) === undefined ? agents.direct : agents.proxied,
        signal: abort.signal,
        headers: {
          accept: ANY_JSON,
          'accept-encoding': 'identity',
          'user-agent': 'holdfast',
          ...request?.body !== undefined && { 'content-type': 'application/x-www-form-urlencoded' },
          ...request?.headers
        },
        ...request && { method: request.method ?? 'POST', body: request.body }
      })
      body.on('error', ignore)
      const fail = (failure: ProviderFailure): never => {
        // Unread it would pause undici, which throws if the connection ends then (its issue 5360).
        body.destroy()
        throw failure
      }
      // If redirects were followed, any answer could choose where keys come from. If a provider moves, the operator
      // changes the settings.
      if (status >= 300 && status < 400) fail(new ProviderFailure('redirect', status))
      const codings = codingsOf(headers['content-encoding'])
      if (codings !== '') {
        fail(new ProviderFailure('content_encoding', undefined, { expected: 'identity', found: printable(codings) }))
      }
      // A body that is announced as too long is not waited for.
      const isCuttable = request?.isCuttable === true
      if (!isCuttable && Number(headers['content-length']) > maxResponseSize) fail(new ProviderFailure('too_large'))
      const contentType = headers['content-type']
      return {
        status,
        ...isCuttable ? await readBeginning(body) : { body: Buffer.from(await body.arrayBuffer()) },
        headers,
        facts: { ...factsOf(url), status, contentType: contentType === undefined ? undefined : printable(contentType) }
      }
    }

    return { send, close }
  }

  return {
    open,
    close () {
      if (kept) destroy(kept)
      kept = undefined
    }
  }
}

/** Undici would ask a proxy that hangs up again at once, and then again, thousands of times until the deadline. */
function askOnce (pool: Dispatcher): Dispatcher {
  const { connect } = pool
  pool.connect = (options: Dispatcher.ConnectOptions) =>
    Reflect.apply(connect, pool, [options]).catch((error: NodeJS.ErrnoException) => {
      throw error.code === 'UND_ERR_SOCKET' ? new ProviderFailure('proxy') : error
    })
  return pool
}

/** A body, as far as it is not too large. */
async function readBeginning (body: AsyncIterable<Buffer>): Promise<Pick<ProviderAnswer, 'body' | 'isCut'>> {
  const chunks: Buffer[] = []
  let isCut = false
  try {
    for await (const chunk of body) chunks.push(chunk)
  } catch (error) {
    isCut = failureOf(error).word === 'too_large'
    if (!isCut) throw error
  }
  return { body: Buffer.concat(chunks), isCut }
}

/** Runs something with a session of its own. @param signal closes the session early */
export async function withSession<Result> (
  transport: Pick<Transport, 'open'>,
  run: (session: ProviderSession) => Promise<Result>,
  signal?: AbortSignal
): Promise<Result> {
  const session = transport.open()
  signal?.addEventListener('abort', session.close)
  if (signal?.aborted) session.close()
  try {
    return await run(session)
  } finally {
    signal?.removeEventListener('abort', session.close)
    session.close()
  }
}

function destroy (agents: Readonly<Record<'direct' | 'proxied', Dispatcher | undefined>>) {
  for (const agent of Object.values(agents)) agent?.destroy().catch(ignore)
}
