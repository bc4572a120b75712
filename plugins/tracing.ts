import type { FastifyInstance, FastifyPluginCallback, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { isTracingAsked, TRACING_PACKAGES } from '../server/tracing.ts'

/** As much of the optional packages as is used: they are not there where nobody traces. */
interface Span { setAttribute (name: string, value: string): void }
interface Instrumentation { plugin (): FastifyPluginCallback }
interface InstrumentationOptions {
  recordExceptions: boolean
  instrumentHooks: boolean
  ignorePaths: (route: { readonly url: string }) => boolean
  requestHook: (span: Span, request: FastifyRequest) => void
}
interface OtelPackages {
  '@fastify/otel': { FastifyOtelInstrumentation: new (options: InstrumentationOptions) => Instrumentation }
  '@opentelemetry/sdk-node': { NodeSDK: new (options: object) => { start (): void, shutdown (): Promise<void> } }
}

/** How a package is loaded; tests have their own. */
export type LoadPackage = <Name extends keyof OtelPackages>(name: Name) => Promise<OtelPackages[Name]>

export interface TracingOptions {
  readonly environment?: Readonly<Record<string, string | undefined>>
  readonly load?: LoadPackage
}

/** Traces of the API's routes by OpenTelemetry, where its standard variables ask for them. Otherwise nothing of it is loaded. */
export default fp<TracingOptions>(async (app: FastifyInstance, { environment = process.env, load = name => import(name) }) => {
  if (!isTracingAsked(environment)) return

  const packages = await loadPackages(load)
  if (packages instanceof Error) {
    // Such variables are often set for a whole cluster: that must not keep the service from starting.
    app.log.warn({ event: 'tracing_unavailable', cause: packages.message }, `OpenTelemetry variables are set, but its packages cannot be loaded, so there will be no traces. To install them: npm install ${TRACING_PACKAGES.join(' ')}`)
    return
  }
  const [{ FastifyOtelInstrumentation }, { NodeSDK }] = packages
  const instrumentation = new FastifyOtelInstrumentation({
    // A refusal is an answer, not an exception; faults are in the log.
    recordExceptions: false,
    // One span for the request and one for its handler: what lies between them is the guard.
    instrumentHooks: false,
    // What balancers and operators look at all the time would drown the rest.
    ignorePaths: ({ url }) => !url.startsWith(`${app.prefix}/api/`),
    // A query may hold what no trace should.
    requestHook: (span, request) => span.setAttribute('url.path', request.url.split('?', 1)[0]!)
  })
  // It reads all the standard variables by itself; only the name would be `unknown_service`.
  const isNamed = environment.OTEL_SERVICE_NAME || environment.OTEL_RESOURCE_ATTRIBUTES?.includes('service.name=')
  const sdk = new NodeSDK({ instrumentations: [instrumentation], ...(isNamed ? {} : { serviceName: 'holdfast' }) })
  sdk.start()
  await app.register(instrumentation.plugin())
  app.addHook('onClose', () => sdk.shutdown())
  // It wraps the hooks of routes, and what their guards ask for is read from those before.
}, { name: 'tracing', dependencies: ['route-guard'] })

async function loadPackages (load: LoadPackage) {
  try {
    return await Promise.all([load('@fastify/otel'), load('@opentelemetry/sdk-node')])
  } catch (error) {
    return error as Error
  }
}
