import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { closeWith } from './listen.ts'

interface ConnectProxy {
  url: string
  /** The `host:port` of each requested tunnel. */
  tunnels: string[]
  /** tunnel: works. refuse: answers 407. hang: never answers. reset: cuts the connection. end: ends it. */
  mode: 'tunnel' | 'refuse' | 'hang' | 'reset' | 'end'
  close (): Promise<void>
}

/**
 * An HTTP proxy for tests (CONNECT, RFC 9110 section 9.3.6). Every name leads to this machine, so that a test needs no
 * DNS.
 */
export async function startConnectProxy (): Promise<ConnectProxy> {
  const sockets = new Set<Duplex>()
  const keep = <S extends Duplex>(socket: S) => {
    sockets.add(socket)
    return socket.on('close', () => sockets.delete(socket)).on('error', () => socket.destroy())
  }
  const server = createServer((_request, response) => response.writeHead(405).end())
  server.on('connection', keep)
  server.on('connect', (request, client: Socket) => {
    proxy.tunnels.push(request.url!)
    if (proxy.mode === 'reset') client.resetAndDestroy()
    if (proxy.mode === 'end') client.end()
    if (proxy.mode === 'refuse') client.end('HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n')
    if (proxy.mode !== 'tunnel') return
    const upstream = keep(connect(Number(request.url!.slice(request.url!.lastIndexOf(':') + 1)), 'localhost', () => {
      client.write('HTTP/1.1 200 Connection Established\r\n\r\n')
      upstream.pipe(client).pipe(upstream)
    }))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')

  const proxy: ConnectProxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    tunnels: [],
    mode: 'tunnel',
    close: () => closeWith(server, sockets)
  }
  return proxy
}
