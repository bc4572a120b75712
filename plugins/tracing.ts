import type { FastifyPluginCallback, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { ownPathsOf } from '../lib/gate/gate-settings.ts'
import { isTracingAsked, TRACING_PACKAGES } from './tracing/tracing.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Of @fastify/otel: puts the context of the span of the request into headers. Undefined without traces. */
    opentelemetry?: () => { inject: (headers: Record<string, string>) => void }
  }
}

/** The used part of the optional packages. They are installed only if traces are wanted. */
interface Span {
  setAttribute (name: string, value: string): void
}
interface Instrumentation {
  plugin (): FastifyPluginCallback
}
interface InstrumentationOptions {
  recordExceptions: boolean
  instrumentHooks: boolean
  ignorePaths: (route: { readonly url: string }) => boolean
  requestHook: (span: Span, request: FastifyRequest) => void
}
interface OtelPackages {
  '@fastify/otel': { FastifyOtelInstrumentation: new(options: InstrumentationOptions) => Instrumentation }
  '@opentelemetry/sdk-node': { NodeSDK: new(options: object) => { start (): void, shutdown (): Promise<void> } }
}

/** Loads a package. Tests pass their own function. */
export type LoadPackage = <Name extends keyof OtelPackages>(name: Name) => Promise<OtelPackages[Name]>

export interface TracingOptions {
  readonly environment?: Readonly<Record<string, string | undefined>>
  readonly load?: LoadPackage
}

/**
 * Traces the API's routes with OpenTelemetry if its standard variables ask for traces. Otherwise none of its packages
 * is loaded.
 */
export default fp<TracingOptions>(
  // eslint-disable-next-line house/arrows -- the packages are optional, and TypeScript would look for one that is named
  async (app, { environment = process.env, load = name => import(name) }) => {
    if (!isTracingAsked(environment)) return

    const packages = await loadPackages(load)
    if (packages instanceof Error) {
      // Such variables are often set for a whole cluster, so a missing package must not stop the start.
      app.log.warn(
        { event: 'tracing_unavailable', cause: packages.message },
        'OpenTelemetry variables are set, but its packages cannot be loaded, so there will be no traces. To ' +
          `install them: npm install ${TRACING_PACKAGES.join(' ')}`
      )
      return
    }
    const [{ FastifyOtelInstrumentation }, { NodeSDK }] = packages
    const { gate } = app.settings
    const ownPaths = ownPathsOf(gate?.ownPrefix ?? '')
    const isOwn = (url: string) => ownPaths.some(path => `${url.split('?', 1)[0]}/`.startsWith(`${path}/`))
    const instrumentation = new FastifyOtelInstrumentation({
      // A refusal is an answer, not an exception. Faults are in the log.
      recordExceptions: false,
      // One span covers the request and one covers its handler. The time between them is the guard's.
      instrumentHooks: false,
      // Balancers and operators ask for these routes all the time. Their spans would hide the rest.
      ignorePaths: ({ url }) => gate ? isOwn(url) : !url.startsWith(`${app.prefix}/api/`),
      // A query may hold secrets.
      requestHook: (span, request) => span.setAttribute('url.path', request.url.split('?', 1)[0]!)
    })
    // The SDK reads the standard variables by itself. Only the name is set here, because it would be `unknown_service`.
    const isNamed = environment.OTEL_SERVICE_NAME || environment.OTEL_RESOURCE_ATTRIBUTES?.includes('service.name=')
    const sdk = new NodeSDK({ instrumentations: [instrumentation], ...isNamed ? {} : { serviceName: 'holdfast' } })
    sdk.start()
    await app.register(instrumentation.plugin())
    app.addHook('onClose', () => sdk.shutdown())
    // Tracing wraps the hooks of routes, so the requirements of their guards must be read before.
  },
  { name: 'tracing', dependencies: ['holdfast-auth'] }
)

async function loadPackages (load: LoadPackage) {
  try {
    return await Promise.all([load('@fastify/otel'), load('@opentelemetry/sdk-node')])
  } catch (error) {
    return error as Error
  }
}
