import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { connect as connectTls } from 'node:tls'
import type { Test } from 'tap'
import { startApp } from './app.ts'
import { freePort } from './free-port.ts'
import { GATE_PROXIES, portFor, startGateProxy, type GateProxy } from './gate-proxies.ts'
import { INSTANCE_PROXIES } from './instance-proxies.ts'
import { startIssuer } from './issuer.ts'
import { nginxProgram, startNginx } from './nginx.ts'

const FIXTURES = join(import.meta.dirname, '..', 'fixtures')

/** A proxy with its file of deploy/, before an application at a port of loopback. */
export interface ShippedSite {
  url: string
  /** What stands before each path. */
  prefix: string
  /** A connection to the proxy. */
  connect (): Socket
}

export interface ShippedFile {
  name: string
  /** Undefined if it is not installed. */
  program: string | undefined
  start (t: Test, application: number): Promise<ShippedSite>
}

const plainSite = (port: number, prefix = '') => ({
  url: `http://127.0.0.1:${port}`,
  prefix,
  connect: () => connect(port, '127.0.0.1')
})

const ofGate = (proxy: GateProxy): ShippedFile => ({
  name: `gate/${proxy.name}`,
  program: proxy.program,
  async start (t, application) {
    const running = await startApp(t, await startIssuer(t), {
      GATE: {
        rules: [{ path: '/open/*', allow: 'anyone' }, { path: '/admin/*', scope: 'admin' }],
        ...proxy.grpc && { grpcPort: 0 }
      },
      TRUST_PROXY: 'loopback'
    })
    const own = Number(new URL(running.url).port)
    const site = await startGateProxy(t, proxy, { gates: [await portFor(proxy, running)], own, application })
    return plainSite(Number(new URL(site.url).port))
  }
})

const ofNginx = (file: string, prefix: string): ShippedFile => ({
  name: `nginx/${file}`,
  program: nginxProgram,
  async start (t, application) {
    const port = await freePort()
    const isTls = file === 'tls.conf'
    const name = isTls ? 'api.example.com' : 'www.example.com'
    await startNginx(t, {
      file,
      port,
      replacements: {
        'server 127.0.0.1:8000;': `server 127.0.0.1:${application};`,
        [`${name} ${name};`]: `127.0.0.1:${port} 127.0.0.1:${port};`,
        ...(isTls
          ? {
              'listen 443 ': `listen 127.0.0.1:${port} `,
              '/etc/ssl/certs/api.example.com.pem': join(FIXTURES, 'provider.cert.pem'),
              '/etc/ssl/private/api.example.com.key': join(FIXTURES, 'provider.key.pem')
            }
          : { 'listen 80': `listen 127.0.0.1:${port}` })
      }
    })
    return isTls
      ? {
          ...plainSite(port),
          connect: () => connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false, ALPNProtocols: ['http/1.1'] })
        }
      : plainSite(port, prefix)
  }
})

/** All of deploy/ that a machine can run. */
export const SHIPPED_FILES: readonly ShippedFile[] = [
  ...GATE_PROXIES.map(ofGate),
  ...INSTANCE_PROXIES.map(({ name, program, start }): ShippedFile => ({
    name: `instances/${name}`,
    program,
    async start (t, application) {
      const port = await freePort()
      await start(t, { port, instances: [application], isRoundRobin: false })
      return plainSite(port)
    }
  })),
  ofNginx('prefix.conf', '/svc'),
  ofNginx('prefix-kept.conf', '/svc'),
  ofNginx('tls.conf', '')
]
