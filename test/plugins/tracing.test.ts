import fp from 'fastify-plugin'
import t from 'tap'
import { exactly } from '../helpers/containing.ts'
import { isTracingAsked } from '../../plugins/tracing/tracing.ts'
import tracing, { type LoadPackage, type TracingOptions } from '../../plugins/tracing.ts'
import { createLoggedApp, startApp } from '../helpers/app.ts'
import { startIssuer } from '../helpers/issuer.ts'
import type { Settings } from '../../lib/settings/settings.ts'
import { startUpstream } from '../helpers/upstream.ts'

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318' }

t.test('Only the standard variables switch traces on', async t => {
  const table: ReadonlyArray<readonly [environment: Record<string, string>, asked: boolean]> = [
    [{}, false],
    [{ OTEL_SERVICE_NAME: 'api' }, false],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: '' }, false],
    [ENDPOINT, true],
    [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://127.0.0.1:4318/v1/traces' }, true],
    [{ OTEL_TRACES_EXPORTER: 'console' }, true],
    [{ ...ENDPOINT, OTEL_TRACES_EXPORTER: 'none' }, false],
    [{ ...ENDPOINT, OTEL_SDK_DISABLED: 'True' }, false],
    [{ ...ENDPOINT, OTEL_SDK_DISABLED: 'false' }, true]
  ]
  for (const [environment, asked] of table) t.equal(isTracingAsked(environment), asked, JSON.stringify(environment))
})

/** The plugin on an app of its own, with the packages that `load` gives. */
async function register (
  t: { teardown: (end: () => unknown) => void },
  options: TracingOptions,
  gate?: { ownPrefix: string }
) {
  const { app, log } = createLoggedApp(t)
  app.decorate('settings', { gate } as unknown as Settings)
  app.register(fp(async () => {}, { name: 'holdfast-auth' }))
  await app.register(tracing, options)
  await app.ready()
  return { app, log }
}

function fakePackages () {
  const seen = {
    loaded: [] as string[],
    instrumentation: {} as Record<string, unknown>,
    sdk: {} as Record<string, unknown>,
    started: 0,
    stopped: 0,
    registered: 0
  }
  const load = async (name: string) => {
    seen.loaded.push(name)
    if (name === '@fastify/otel') {
      return {
        FastifyOtelInstrumentation: class {
          constructor (options: Record<string, unknown>) {
            seen.instrumentation = options
          }

          plugin () {
            return (_app: unknown, _options: unknown, done: () => void) => {
              seen.registered++
              done()
            }
          }
        }
      }
    }
    return {
      NodeSDK: class {
        constructor (options: Record<string, unknown>) {
          seen.sdk = options
        }

        start () {
          seen.started++
        }

        async shutdown () {
          seen.stopped++
        }
      }
    }
  }
  return { seen, load: load as LoadPackage }
}

t.test('Nothing is loaded unless traces are on', async t => {
  const { seen, load } = fakePackages()
  await register(t, { environment: { OTEL_SERVICE_NAME: 'api' }, load })
  t.strictSame(seen.loaded, [])
  await register(t, { environment: ENDPOINT, load })
  t.strictSame(seen.loaded.sort(), ['@fastify/otel', '@opentelemetry/sdk-node'])
})

t.test('Traces begin with the service, end with it, and hold no query and no refusal as an exception', async t => {
  const { seen, load } = fakePackages()
  const { app } = await register(t, { environment: ENDPOINT, load })
  t.hasStrict(seen, { started: 1, registered: 1, stopped: 0 })
  t.hasStrict(seen.instrumentation, { recordExceptions: false, instrumentHooks: false })
  t.equal((seen.sdk.instrumentations as unknown[]).length, 1, 'the SDK learns of it')
  const ignores = seen.instrumentation.ignorePaths as (route: object) => boolean
  t.strictSame(
    ['/api/private', '/health/live', '/metrics', '/docs'].filter(url => !ignores({ url })),
    ['/api/private'],
    'only the API is traced'
  )
  const attributes: unknown[] = []
  const hook = seen.instrumentation.requestHook as (span: object, request: object) => void
  hook({ setAttribute: (...pair: unknown[]) => attributes.push(pair) }, { url: '/api/private?access_token=secret' })
  t.strictSame(attributes, [['url.path', '/api/private']])
  await app.close()
  t.equal(seen.stopped, 1)
})

t.test('Of a gate, what it passes on is traced, and none of its own paths.', async t => {
  const { seen, load } = fakePackages()
  await register(t, { environment: ENDPOINT, load }, { ownPrefix: '' })
  const ignores = seen.instrumentation.ignorePaths as (route: object) => boolean
  t.strictSame(
    ['/orders?a=/docs', '/*', '/', '/healthy', '/health/live?x', '/metrics', '/docs/json'].filter(url => !ignores({ url })),
    ['/orders?a=/docs', '/*', '/', '/healthy']
  )
})

t.test('The upstream of a gate gets the trace of the gate in place of the client\'s.', async t => {
  const issuer = await startIssuer(t)
  const upstream = await startUpstream(t)
  const span = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  for (const isTraced of [true, false]) {
    const { url } = await startApp(
      t,
      issuer,
      { GATE: { upstream: upstream.origin, rules: [{ path: '/*', allow: 'anyone' }] } },
      undefined,
      app => {
        if (!isTraced) return
        app.decorateRequest('opentelemetry', () => ({
          inject (headers) {
            headers.traceparent = span
          }
        }))
      }
    )
    const theirs = span.replace(/-01$/, '-00')
    await fetch(`${url}/orders`, { headers: { traceparent: theirs } })
    t.equal(upstream.arrived.at(-1)!.headers['traceparent'], isTraced ? span : theirs)
  }
})

t.test('The service has a name in traces, unless the variables give it one', async t => {
  const table: ReadonlyArray<readonly [environment: Record<string, string>, name: string | undefined]> = [
    [{}, 'holdfast'],
    [{ OTEL_SERVICE_NAME: 'api' }, undefined],
    [{ OTEL_RESOURCE_ATTRIBUTES: 'service.name=api,x=y' }, undefined],
    [{ OTEL_RESOURCE_ATTRIBUTES: 'x=y' }, 'holdfast']
  ]
  for (const [environment, name] of table) {
    const { seen, load } = fakePackages()
    await register(t, { environment: { ...ENDPOINT, ...environment }, load })
    t.equal(seen.sdk.serviceName, name, JSON.stringify(environment))
  }
})

const isInstalled = await import('@fastify/otel' as string).then(() => true, () => false)

t.test('Without the packages the service starts, and says what to install', {
  skip: isInstalled && 'the packages are installed'
}, async t => {
  const { log } = await register(t, { environment: ENDPOINT })
  t.match(log, [{ level: 40, event: exactly('tracing_unavailable'), cause: /otel|opentelemetry/ }])
  t.equal(
    log[0]?.msg,
    'OpenTelemetry variables are set, but its packages cannot be loaded, so there will be no traces. To install ' +
      'them: npm install @fastify/otel @opentelemetry/sdk-node @opentelemetry/api'
  )
})

t.test('The service itself reads the variables of its process', async t => {
  const issuer = await startIssuer(t)
  const before = process.env.OTEL_TRACES_EXPORTER
  t.teardown(() => {
    if (before === undefined) delete process.env.OTEL_TRACES_EXPORTER
    else process.env.OTEL_TRACES_EXPORTER = before
  })
  process.env.OTEL_TRACES_EXPORTER = 'none'
  const { app, log } = await startApp(t, issuer, { LOG_LEVEL: 'warn', TRUST_PROXY: '192.0.2.1' })
  t.equal(app.hasPlugin('tracing'), true)
  t.strictSame(log, [])
})
