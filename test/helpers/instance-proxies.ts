import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { nginxProgram, startNginx } from './nginx.ts'
import { programOf, startProgram } from './programs.ts'

const deploy = join(import.meta.dirname, '..', '..', 'deploy')

interface InstanceProxyParts {
  /** The port of the proxy, and those of three instances behind it. */
  port: number
  instances: readonly number[]
  /** Without the lines that keep a client at its instance. */
  isRoundRobin: boolean
}

/** A proxy in front of several instances, with its file of deploy/. */
interface InstanceProxy {
  name: string
  /** Undefined if it is not installed. */
  program: string | undefined
  start (t: Test, parts: InstanceProxyParts): Promise<void>
}

interface Written {
  name: string
  file: string
  /** Texts of the file and their replacements. */
  replacements (parts: InstanceProxyParts): Record<string, string>
  /** What keeps a client at its instance, and its replacement for a round robin. */
  affinity: readonly [kept: string, roundRobin: string]
  args (file: string): string[]
}

function written ({ name, file, replacements, affinity: [kept, roundRobin], args }: Written): InstanceProxy {
  return {
    name,
    program: programOf(name),
    async start (t, parts) {
      const folder = mkdtempSync(join(tmpdir(), `holdfast-${name}-`))
      t.teardown(() => {
        rmSync(folder, { recursive: true, force: true })
      })
      let text = readFileSync(join(deploy, 'instances', file), 'utf8')
      for (
        const [from, to] of Object.entries({ ...replacements(parts), ...parts.isRoundRobin && { [kept]: roundRobin } })
      ) {
        if (!text.includes(from)) throw new Error(`${file} no longer holds ${from}`)
        text = text.replaceAll(from, to)
      }
      writeFileSync(join(folder, file), text)
      await startProgram(t, programOf(name)!, { args: args(join(folder, file)), folder, ports: [parts.port] })
    }
  }
}

const addresses = (instances: readonly number[], write: (port: number, n: number) => string, between: string) =>
  instances.map(write).join(between)

export const INSTANCE_PROXIES: readonly InstanceProxy[] = [
  {
    name: 'nginx',
    program: nginxProgram,
    async start (t, { port, instances, isRoundRobin }) {
      await startNginx(t, {
        file: 'instances.conf',
        port,
        replacements: {
          'listen 80 ': `listen 127.0.0.1:${port} `,
          'localhost:8000 localhost:8000;': `127.0.0.1:${port} 127.0.0.1:${port};`,
          'server 127.0.0.1:8001 max_fails=0;': addresses(
            instances,
            instance => `server 127.0.0.1:${instance} max_fails=0;`,
            ' '
          ),
          '    server 127.0.0.1:8002 max_fails=0;\n': '',
          ...isRoundRobin && { 'hash $holdfast_client consistent;': '' }
        }
      })
    }
  },
  written({
    name: 'haproxy',
    file: 'haproxy.cfg',
    replacements: ({ port, instances }) => ({
      'api.example api.example:80': `127.0.0.1:${port}`,
      'bind :80\n': `bind 127.0.0.1:${port}\n`,
      'server a 127.0.0.1:8001': addresses(instances, (instance, n) => `server i${n} 127.0.0.1:${instance}`, '\n    '),
      '    server b 127.0.0.1:8002\n': ''
    }),
    affinity: ['balance hash var(txn.client)\n', 'balance roundrobin\n'],
    args: file => ['-f', file]
  }),
  written({
    name: 'caddy',
    file: 'Caddyfile',
    replacements: ({ port, instances }) => ({
      'api.example {': `{\n\tadmin off\n\tauto_https off\n}\nhttp://127.0.0.1:${port} {\n\tbind 127.0.0.1`,
      ':80, :443 {': `http://:${port} {\n\tbind 127.0.0.1`,
      'api\\.example(:443)?': `127\\.0\\.0\\.1:${port}`,
      '127.0.0.1:8001 127.0.0.1:8002': addresses(instances, instance => `127.0.0.1:${instance}`, ' ')
    }),
    affinity: ['lb_policy header X-Client', 'lb_policy round_robin'],
    args: file => ['run', '--config', file, '--adapter', 'caddyfile']
  }),
  written({
    name: 'envoy',
    file: 'envoy.yaml',
    replacements: ({ port, instances }) => ({
      "[api.example, 'api.example:80']": `['127.0.0.1:${port}']`,
      'address: 0.0.0.0, port_value: 80 ': `address: 127.0.0.1, port_value: ${port} `,
      '- endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: 8001 } } }': addresses(
        instances,
        instance => `- endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: ${instance} } } }`,
        '\n              '
      ),
      '              - endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: 8002 } } }\n': ''
    }),
    affinity: ['lb_policy: RING_HASH', 'lb_policy: ROUND_ROBIN'],
    args: file => ['-c', file, '--disable-hot-restart', '--concurrency', '1', '-l', 'error']
  })
]
