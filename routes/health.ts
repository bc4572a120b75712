import type { FastifyPluginAsync } from 'fastify'
import { readiness } from '../lib/assembly/readiness.ts'
import { versionOf } from '../server/build.ts'
import { withExample } from '../schemas/answers.ts'
import { aliveSchema, readySchema } from '../schemas/operation.ts'

const READY = { status: 'ok', checks: { process: 'ok', keys: 'ok', replay: 'ok' } }
/** As it is until the keys have been fetched once. */
const NOT_READY = { status: 'unavailable', checks: { ...READY.checks, keys: 'empty' } }

/** `/health/live`: the process answers. `/health/ready`: it can decide about tokens and proofs. */
const routes: FastifyPluginAsync<{ ownPrefix: string }> = async (app, { ownPrefix }) => {
  const { guardAudit: audit, holdfastGuard: { parts } } = app
  const config = { essential: true }
  const version = versionOf(import.meta.dirname)
  const alive = { status: 'ok', version, commit: process.env.HOLDFAST_COMMIT || undefined }

  app.get(`${ownPrefix}/health/live`, {
    config,
    schema: {
      tags: ['Operation'],
      summary: 'Whether the process answers, and which build it is',
      response: { 200: withExample(aliveSchema, alive) }
    }
  }, (_request, reply) => {
    reply.header('cache-control', 'no-store')
    return alive
  })

  app.get(`${ownPrefix}/health/ready`, {
    config,
    schema: {
      tags: ['Operation'],
      summary: 'Whether the service can decide about tokens and proofs',
      response: { 200: withExample(readySchema, READY), 503: withExample(readySchema, NOT_READY) }
    }
  }, (_request, reply) => {
    const { status, body } = readiness(parts, { isClosing: app.closing.hasBegun, audit })
    reply.code(status).header('cache-control', 'no-store')
    return body
  })
}

export default routes
