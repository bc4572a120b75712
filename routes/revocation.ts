import { Readable } from 'node:stream'
import type { FastifyPluginAsync, FastifyReply, FastifyRequest, RouteShorthandOptions } from 'fastify'
import { senderAt } from '../lib/base/bounded-reader.ts'
import { enforce } from '../lib/guard/observing.ts'
import { Refusal } from '../lib/refusal.ts'
import { UndecidedError } from '../lib/revocation/store/store.ts'
import { operatorEntries } from '../lib/revocation/operator.ts'
import type { Received } from '../lib/revocation/receiver.ts'
import { MAX_EVENT_BYTES_OF_ADDRESS } from '../lib/revocation/event-body.ts'
import { MAX_SET_BYTES } from '../lib/revocation/security-event-token.ts'
import { misunderstood, SetError } from '../lib/revocation/set-error.ts'
import { eventsSchema, logoutSchema, subjectsSchema } from '../schemas/revocation.ts'

/** A logout token has a few short claims. */
const MAX_LOGOUT_BYTES = 16 * 1024
const RETRY_AFTER_SECONDS = 1
const JSON_TYPE = /^application\/json *(?:;|$)/i
/** What each refusal but 400 is. */
const STATUSES: { readonly [Err in SetError['err']]?: number } = { authentication_failed: 401, access_denied: 403 }

/** What a protocol says in the body of a refusal. */
type BodyOfRefusal = (error: Pick<SetError, 'err' | 'message'>) => object
const oauthBody: BodyOfRefusal = ({ err, message }) => ({
  error: err === 'access_denied' ? err : 'invalid_request',
  error_description: message
})

interface Endpoint {
  readonly path: string
  /** Only this content type is read. Any other is 415. */
  readonly type: string
  readonly bodyLimit: number
  readonly route: Pick<RouteShorthandOptions, 'config' | 'onRequest' | 'preParsing'>
  /** For OpenAPI. */
  readonly summary: string
  readonly schema: object
  /** Of the answer once what came is stored. */
  readonly status: number
  readonly receive: (request: FastifyRequest, reply: FastifyReply) => Promise<Received>
  readonly bodyOf: BodyOfRefusal
}

/**
 * `/revocation/...`: senders of events, providers and operators say what is revoked. Only what the settings ask for is
 * served.
 */
const routes: FastifyPluginAsync = async app => {
  const { decisions, parts: { revocation } } = app.holdfastGuard
  if (!revocation) return
  const { receiver, readBody, revocations, settings, issuers: known, count } = revocation

  await app.register(async scope => {
    scope.addHook('onRequest', (request, reply, done) => {
      // Whoever may revoke is not only observed.
      enforce(request, true)
      reply.header('cache-control', 'no-store')
      done()
    })

    // Only a service that is a gate has it, and a copied guard lacks its type.
    const { gate } = app as unknown as {
      readonly gate?: { goAhead (request: FastifyRequest, reply: FastifyReply): void }
    }
    scope.addHook('preParsing', async (request, reply, payload) => {
      // Fastify answers 413.
      if (Number(request.headers['content-length']) > request.routeOptions.bodyLimit!) return payload
      // Beside a gate, no other route has a sender that waits before it sends its body.
      gate?.goAhead(request, reply)
      try {
        return Readable.from([
          await readBody(payload, reply.raw, [senderAt(request.ip, MAX_EVENT_BYTES_OF_ADDRESS)])
        ], { objectMode: false })
      } catch (error) {
        if (!(error instanceof UndecidedError)) throw error
        refuse(request, reply.header('connection', 'close'), error, oauthBody)
      }
    })

    // Security event tokens by push (RFC 8935).
    if (settings.transmitters.some(({ delivery }) => delivery === 'push')) {
      await serve(scope, {
        path: '/revocation/events',
        type: 'application/secevent+jwt',
        bodyLimit: MAX_SET_BYTES,
        route: { config: { essential: true } },
        summary: 'Security event tokens of transmitters (RFC 8935)',
        schema: eventsSchema,
        status: 202,
        receive: ({ body, headers }) => receiver.push(String(body).trim(), headers.authorization),
        bodyOf: ({ err, message }) => ({ err, description: message })
      })
    }
    // OpenID Connect Back-Channel Logout 1.0 section 2.5.
    if (settings.logout.length > 0) {
      await serve(scope, {
        path: '/revocation/logout',
        type: 'application/x-www-form-urlencoded',
        bodyLimit: MAX_LOGOUT_BYTES,
        route: { config: { essential: true } },
        summary: 'Logout tokens of providers (OpenID Connect Back-Channel Logout)',
        schema: logoutSchema,
        status: 200,
        receive: ({ body }) => receiver.logout(String(body)),
        bodyOf: oauthBody
      })
    }
    // The shape of Global Token Revocation (draft-parecki-oauth-global-token-revocation).
    if (settings.operators) {
      const { scope: needed, issuers: others } = settings.operators
      await serve(scope, {
        path: '/revocation/subjects',
        type: 'application/json',
        bodyLimit: MAX_SET_BYTES,
        route: {
          onRequest: app.requireScope(needed),
          preParsing (request, reply, payload, done) {
            if (JSON_TYPE.test(request.headers['content-type'] ?? '')) done(null, payload)
            else refuse(request, reply, misunderstood('the body is not application/json'), oauthBody)
          }
        },
        summary: 'What an operator takes back',
        schema: subjectsSchema,
        status: 204,
        async receive ({ body, user, auth }, reply) {
          const entries = operatorEntries({
            body: String(body),
            operator: user.sub,
            issuer: auth!.issuer,
            others,
            known,
            namesOf: revocations.namesOf,
            endedBy: revocations.endedBy,
            now: revocations.now()
          })
          const isMatched = await revocations.append(entries)
          const outcome = entries.length === 0 ? 'unmapped' : isMatched ? 'applied' : 'unmatched'
          if (outcome !== 'applied') reply.header('holdfast-revocation', 'unmatched')
          return { sender: 'operator', type: 'operator', outcome }
        },
        bodyOf: oauthBody
      })
    }
  })

  /** In a scope of its own, for the parser of its bodies. */
  async function serve (
    parent: typeof app,
    { path, type, bodyLimit, route, summary, schema, status, receive, bodyOf }: Endpoint
  ) {
    await parent.register(async scope => {
      scope.removeAllContentTypeParsers()
      scope.addContentTypeParser(type, { parseAs: 'string', bodyLimit }, (_request, body, done) => done(null, body))
      scope.post(path, {
        ...route,
        bodyLimit,
        // Schemas of bodies are for the description. What cannot be read is refused in the words of each protocol.
        validatorCompiler: () => () => true,
        // In an app without @fastify/swagger, nothing declares these members.
        schema: { tags: ['Revocation'], summary, consumes: [type], ...schema } as object
      }, async (request, reply) => {
        try {
          const received = await receive(request, reply)
          count(received.type, received.outcome)
          request.log.info({ event: 'revocation_received', ...received }, 'revocation received')
          return await reply.code(status).send()
        } catch (error) {
          return refuse(request, reply, error as Error, bodyOf)
        }
      })
    })
  }

  /** @throws what is no refusal of ours: it becomes a 500 */
  function refuse (request: FastifyRequest, reply: FastifyReply, error: Error, bodyOf: BodyOfRefusal) {
    if (error instanceof SetError) {
      const { err, message } = error
      const status = STATUSES[err] ?? 400
      count('refused', status === 400 ? 'invalid' : 'unauthorized')
      const reason = status === 401 ? 'authorization' : message
      request.log.info({ event: 'revocation_refused', reason }, 'revocation refused')
      if (status === 401) reply.header('www-authenticate', 'Bearer')
      if (status === 403) decisions.refused(request, { reason: 'access_denied', status })
      return reply.code(status).header('content-language', 'en').send(bodyOf({ err, message }))
    }
    if (!(error instanceof Refusal || error instanceof UndecidedError)) throw error
    count('refused', 'unavailable')
    request.log.warn({
      event: 'revocation_refused',
      reason: error instanceof Refusal ? 'the keys of the sender cannot be fetched' : error.message
    }, 'revocation refused')
    return reply.code(503).header('retry-after', String(RETRY_AFTER_SECONDS)).send({
      statusCode: 503,
      error: 'Service Unavailable',
      message: 'The revocation cannot be stored now.'
    })
  }
}
export default routes
