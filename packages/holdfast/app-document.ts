import { createRequire } from 'node:module'
import type { FastifyInstance, RouteOptions } from 'fastify'
import fp from 'fastify-plugin'
import type { AppDocument } from '../../lib/report/openapi/app-document.ts'
import { kRouteGuard, type MayHaveGuard, type RouteGuard } from '../../lib/guard/requirement/route-guard.ts'

const require = createRequire(import.meta.url)

/** `app.swagger` of @fastify/swagger: the document, as an object that it keeps, or as YAML. */
type MakeDocument = (options?: { readonly yaml?: boolean }) => AppDocument | string

/** A scope of the app with a document of its own. */
interface Documented {
  swagger: MakeDocument
}

/**
 * Describes the guards in the documents that an @fastify/swagger of the app makes, wherever it is registered. Without
 * one it does nothing.
 */
export default fp(async (app: FastifyInstance) => {
  const noted: Array<{ readonly scope: FastifyInstance, readonly route: RouteOptions, readonly guard: RouteGuard }> = []
  app.addHook('onRoute', function (this: FastifyInstance, route: RouteOptions) {
    // The guard has noted it just before, and another plugin may replace the config after this.
    noted.push({ scope: this, route, guard: (route.config as MayHaveGuard)[kRouteGuard]! })
  })
  app.addHook('onReady', async () => {
    const documented = new Set<Documented>()
    const guards = new Map<string, RouteGuard>()
    for (const { scope, route, guard } of noted.splice(0)) {
      const owner = documentedScopeOf(scope)
      if (!owner || guard.length === 0) continue
      documented.add(owner)
      const mark = `${String(route.method)} ${route.url}`
      guards.set(mark, guard)
      // Fastify has read the schema by now. Only the document is made from it later.
      route.schema = { ...route.schema, 'x-holdfast-guard': mark } as NonNullable<RouteOptions['schema']>
    }
    if (documented.size === 0) return
    const { describeGuards } = await loadDescriptions()
    for (const owner of documented) {
      const make = owner.swagger
      owner.swagger = options => {
        const document = make() as AppDocument
        const isDescribed = describeGuards(document, guards, app.holdfastGuard.settings)
        if (!isDescribed && !described.has(document)) return make(options)
        described.add(document)
        return options?.yaml ? yamlOf(document) : document
      }
    }
  })
}, { name: 'holdfast-app-document' })

/** Most apps have no document. */
async function loadDescriptions (): Promise<typeof import('../../lib/report/openapi/app-document.ts')> {
  return await import('../../lib/report/openapi/app-document.ts')
}

/** Documents that have guards in them. @fastify/swagger makes each one once. */
const described = new WeakSet<object>()

/** The scope around this one, or itself, that @fastify/swagger has decorated. */
function documentedScopeOf (scope: object): Documented | undefined {
  for (let owner: object | null = scope; owner; owner = Object.getPrototypeOf(owner) as object | null) {
    if (Object.hasOwn(owner, 'swagger')) {
      return typeof (owner as Documented).swagger === 'function'
        ? owner as Documented
        : undefined
    }
  }
  return undefined
}

/** Written by @fastify/swagger itself, from a finished document: the app has the package. */
function yamlOf (document: AppDocument): string {
  let write: MakeDocument
  loadSwagger()(
    {
      decorate: (_name: string, make: MakeDocument) => {
        write = make
      }
    },
    { mode: 'static', specification: { document } },
    () => {}
  )
  return write!({ yaml: true }) as string
}

/** Of @fastify/swagger, whichever it is: how it describes a document that it is given. */
type Swagger = (app: object, options: object, done: () => void) => void

function loadSwagger (): Swagger {
  try {
    return require('@fastify/swagger') as Swagger
  } catch (error) {
    throw new Error(
      'The document cannot be written as YAML, because the guard finds no @fastify/swagger beside it. As JSON it can.',
      { cause: error }
    )
  }
}
