import getPort from 'get-port'
import { keep } from '../../bench/holdfast.js'
import { openHostileGrpc, TRUSTED } from './hostile-grpc.js'
import { openHostile } from './hostile-kinds.js'
import { startUpstream } from '../../bench/upstream.js'

const LARGE_TURNS = 30
const LARGE_AT_ONCE = 32

/**
 * Answers as large as the hostile ones, each read by its client. The allocator keeps what they took on their way
 * through, and no connection holds that.
 */
const readLarge = async port => {
  for (let turn = 0; turn < LARGE_TURNS; turn++) {
    await Promise.all(
      Array.from(
        { length: LARGE_AT_ONCE },
        async () => (await fetch(`http://127.0.0.1:${port}/open/large`)).arrayBuffer()
      )
    )
  }
}

const large = Buffer.alloc(400_000)

/** What answers behind the gate. */
const answer = (request, response) => {
  response.on('error', () => {})
  if (request.url === '/open/body') return request.resume()
  if (request.url === '/open/large') return response.end(large)
  if (request.url !== '/open/endless') return response.end('{}')
  const more = () => {
    while (response.write(large));
  }
  response.on('drain', more)
  more()
}

/** One that allows upgrades has Node tell each. */
const RULES = [{ path: '/open/*', allow: 'anyone' }, { path: '/sockets', upgrade: true }, { path: '/*' }]

const startGate = async settings => {
  const { origin, close } = await startUpstream(answer)
  const config = {
    gate: { upstream: origin, rules: RULES, ...settings }
  }
  return {
    env: { CONFIG_FILE: keep('config.json', JSON.stringify(config)), TRUST_PROXY: TRUSTED },
    probe: '/health/live',
    warm: readLarge,
    open: openHostile,
    close
  }
}

/**
 * What a kind is aimed at, by its `at`: settings beside those of every run, the port if it is not that of honest
 * requests, and what runs behind.
 */
export const SERVERS = {
  service: async () => ({ env: {}, open: openHostile }),
  gate: () => startGate({}),
  grpc: async () => {
    const grpcPort = await getPort()
    return { ...await startGate({ grpcPort }), port: grpcPort, open: openHostileGrpc }
  }
}
