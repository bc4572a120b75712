import swagger, { type FastifyDynamicSwaggerOptions } from '@fastify/swagger'
import fp from 'fastify-plugin'
import { kRouteGuard, type MayHaveGuard } from '../lib/guard/requirement/route-guard.ts'
import {
  addGuardAnswers,
  describeRoute,
  describeRules,
  describeService,
  type DescribedRoute
} from '../lib/report/openapi/describe.ts'
import type { OpenapiDocument, Operation } from '../lib/report/openapi/document.ts'
import { versionOf } from '../server/build.ts'

/** A document by the types of @fastify/swagger. Ours name fewer parts. */
type SwaggerDocument = ReturnType<NonNullable<FastifyDynamicSwaggerOptions['transformObject']>>

/**
 * Decorates `app.swagger()`: the OpenAPI document, made from the routes' own schemas and guards. routes/docs.ts serves
 * it.
 */
export default fp(async app => {
  const { settings } = app
  const described = new Map<string, DescribedRoute>()

  const options: FastifyDynamicSwaggerOptions = {
    openapi: describeService(versionOf(import.meta.dirname), settings) as FastifyDynamicSwaggerOptions['openapi'],
    convertConstToEnum: false,
    transform ({ schema, url, route }) {
      // The guard notes it for every route.
      const { essential = false, [kRouteGuard]: noted } = route.config! as typeof route.config & MayHaveGuard
      const guard = noted!.length === 0 ? undefined : noted
      // If a route has several methods, the first one names the operation.
      const method = [route.method].flat()[0]!
      const entry = { method, url, guard, essential, schema: { ...schema } as Record<string, unknown> }
      const description = describeRoute(entry, settings)
      described.set(description.schema.operationId as string, entry)
      return description
    },
    transformObject (document) {
      const { openapiObject } = document as unknown as { openapiObject: OpenapiDocument }
      // A route with several methods is one object, shared by all of them.
      for (
        const operation of new Set<Operation>(Object.values(openapiObject.paths).flatMap(path => Object.values(path)))
      ) {
        addGuardAnswers(operation, described.get(operation.operationId!)!, settings)
      }
      // Plugins load in no fixed order. The document has a fixed order.
      openapiObject.paths = Object.fromEntries(Object.entries(openapiObject.paths).sort())
      if (settings.gate) openapiObject['x-rules'] = describeRules(settings.gate.rules)
      return openapiObject as SwaggerDocument
    }
  }
  await app.register(swagger, options)
}, { name: 'openapi', dependencies: ['holdfast-auth'] })
