import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import type { Test } from 'tap'
import { holdfast, readSettings, serverOptions, type HoldfastOptions } from '../../holdfast.ts'
import type { Variables } from './variables.ts'
import { jwtToolsInUse } from './jwt-tools.ts'
import { AUDIENCE, type Issuer } from './issuer.ts'
import { addStandIns, isSample } from './samples.ts'

export interface LogLine extends Record<string, unknown> {
  level: number
  msg: string
}

export interface RunningApp {
  app: FastifyInstance
  /** Where it listens: `http://127.0.0.1:PORT`. */
  url: string
  /** What it logged, in order. */
  log: readonly LogLine[]
  /** The reasons of the refusals so far. */
  reasons (): unknown[]
}

interface Start {
  values?: Variables
  before?: (app: FastifyInstance) => void
  prepare?: (app: FastifyInstance) => void
  host?: string | undefined
  port?: number | undefined
  isServed?: HoldfastOptions['isServed']
}

/** An app of its own. It closes with the test. */
export function createApp (t: { teardown: (end: () => unknown) => void }, options: FastifyServerOptions = {}) {
  const app = Fastify(options)
  t.teardown(() => app.close())
  return app
}

/** The same, and what it logs. */
export function createLoggedApp (t: { teardown: (end: () => unknown) => void }) {
  const log: Array<Record<string, unknown>> = []
  const app = createApp(t, {
    logger: {
      stream: {
        write: (line: string) => {
          log.push(JSON.parse(line))
        }
      }
    }
  })
  return { app, log }
}

/**
 * The whole service on a socket of loopback, with the settings of a test and the sample routes, of which a gate has
 * none. Own routes are left out, so that they change nothing for this test. It ends with the test.
 */
export function startApp (
  t: Test,
  issuer: Issuer,
  values: Variables = {},
  prepare?: (app: FastifyInstance) => void,
  before?: (app: FastifyInstance) => void,
  host?: string,
  port?: number
): Promise<RunningApp> {
  return start(t, issuer, {
    values,
    before,
    port,
    prepare: app => {
      if (values.GATE === undefined && values.GATE_UPSTREAM === undefined) addStandIns(app)
      prepare?.(app)
    },
    host,
    isServed: isSample
  })
}

/** The service as it is deployed, with every file of routes/api. It ends with the test. */
export function startWholeApp (
  t: Test,
  issuer: Issuer,
  values: Variables = {},
  before?: (app: FastifyInstance) => void
): Promise<RunningApp> {
  return start(t, issuer, { values, before })
}

async function start (
  t: Test,
  issuer: Issuer,
  { values, before, prepare, host = '127.0.0.1', port = 0, isServed }: Start
) {
  const settings = await readSettings({ IDP_ISSUER: issuer.url, IDP_AUDIENCE: AUDIENCE, ...values })
  const log: LogLine[] = []
  const options = serverOptions(settings)
  const server: FastifyInstance = Fastify({
    ...options,
    // Loading the service for the first time may take long on a busy machine.
    pluginTimeout: 0,
    logger: {
      level: settings.server.logLevel,
      stream: {
        write: (line: string) => {
          log.push(JSON.parse(line))
        }
      }
    }
  })
  // Below the root, as fastify-cli loads it. What listens and closes is the root.
  let app = server
  await server.register(async below => {
    app = Object.assign(below, { close: server.close.bind(server) })
    before?.(below)
    await below.register(holdfast, { settings, isServed, jwtTools: jwtToolsInUse() })
    prepare?.(below)
  })
  t.teardown(() => {
    // With the listener closed already, the end does not wait for a balancer to notice.
    app.server.closeAllConnections()
    app.server.close()
    return app.close()
  })
  // A slow machine is not overload, unless a test says so.
  app.memoryUsage = () => ({ eventLoopDelay: 0, rssBytes: 0, heapUsed: 0, eventLoopUtilized: 0 })
  const url = await server.listen({ port, host })
  return {
    app,
    url,
    log,
    reasons: () => log.filter(line => line.msg === 'request refused').map(({ reason }) => reason)
  }
}
