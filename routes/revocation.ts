import { Readable } from 'node:stream'
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import { senderAt } from '../lib/base/bounded-reader.ts'
import { enforce } from '../lib/guard/observing.ts'
import { Refusal } from '../lib/refusal.ts'
import { UndecidedError } from '../lib/revocation/store/store.ts'
import { ForbiddenSubjectError, operatorEntries } from '../lib/revocation/operator.ts'
import type { Received } from '../lib/revocation/receiver.ts'
import { MAX_EVENT_BYTES_OF_ADDRESS } from '../lib/revocation/event-body.ts'
import { MAX_SET_BYTES, SetError } from '../lib/revocation/security-event-token.ts'
import { SubjectError } from '../lib/revocation/subject.ts'
import { eventsSchema, logoutSchema, subjectsSchema } from '../schemas/revocation.ts'

/** A logout token has a few short claims. */
const MAX_LOGOUT_BYTES = 16 * 1024
const RETRY_AFTER_SECONDS = 1
const JSON_TYPE = /^application\/json *(?:;|$)/i
/** Schemas of bodies are for the description. What cannot be read is refused in the words of each protocol. */
const DESCRIBED_ONLY = { validatorCompiler: () => () => true } as const

/** What a protocol says in the body of a 400. */
type BodyOfRefusal = (error: { readonly err: SetError['err'] | 'access_denied', readonly message: string }) => object
const oauthBody: BodyOfRefusal = ({ err, message }) => ({
  error: err === 'access_denied' ? err : 'invalid_request',
  error_description: message
})

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
      // Beside a gate, nobody else has a sender that waits for it send its body.
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

    if (settings.transmitters.some(({ delivery }) => delivery === 'push')) await scope.register(events)
    if (settings.logout.length > 0) await scope.register(logout)
    if (settings.operators) await scope.register(operators, settings.operators)
  })

  /** Security event tokens by push (RFC 8935). */
  async function events (scope: typeof app): Promise<void> {
    const type = 'application/secevent+jwt'
    takeText(scope, type, MAX_SET_BYTES)
    scope.post(
      '/revocation/events',
      {
        ...DESCRIBED_ONLY,
        bodyLimit: MAX_SET_BYTES,
        config: { essential: true },
        schema: described('Security event tokens of transmitters (RFC 8935)', type, eventsSchema)
      },
      receiving(
        202,
        request => receiver.push(String(request.body).trim(), request.headers.authorization),
        ({ err, message }) => ({ err, description: message })
      )
    )
  }

  /** OpenID Connect Back-Channel Logout 1.0 section 2.5. */
  async function logout (scope: typeof app): Promise<void> {
    const type = 'application/x-www-form-urlencoded'
    takeText(scope, type, MAX_LOGOUT_BYTES)
    scope.post('/revocation/logout', {
      ...DESCRIBED_ONLY,
      bodyLimit: MAX_LOGOUT_BYTES,
      config: { essential: true },
      schema: described('Logout tokens of providers (OpenID Connect Back-Channel Logout)', type, logoutSchema)
    }, receiving(200, ({ body }) => receiver.logout(String(body)), oauthBody))
  }

  /** The shape of Global Token Revocation (draft-parecki-oauth-global-token-revocation). */
  async function operators (
    scope: typeof app,
    { scope: needed, issuers: others }: NonNullable<typeof settings.operators>
  ): Promise<void> {
    const type = 'application/json'
    scope.addHook('preParsing', (request, reply, payload, done) => {
      if (JSON_TYPE.test(request.headers['content-type'] ?? '')) done(null, payload)
      else refuse(request, reply, new SubjectError(`the body is not ${type}`), oauthBody)
    })
    takeText(scope, type, MAX_SET_BYTES)
    scope.post(
      '/revocation/subjects',
      {
        ...DESCRIBED_ONLY,
        bodyLimit: MAX_SET_BYTES,
        onRequest: app.requireScope(needed),
        schema: described('What an operator takes back', type, subjectsSchema)
      },
      receiving(204, async ({ body, user, auth }, reply) => {
        const entries = operatorEntries({
          body: String(body),
          operator: user.sub,
          issuer: auth!.issuer,
          others,
          known,
          namesOf: revocations.namesOf,
          now: revocations.now()
        })
        const isMatched = await revocations.append(entries)
        const outcome = entries.length === 0 ? 'unmapped' : isMatched ? 'applied' : 'unmatched'
        if (outcome !== 'applied') reply.header('holdfast-revocation', 'unmatched')
        return { sender: 'operator', type: 'operator', outcome }
      }, oauthBody)
    )
  }

  /** Answers with the status once `receive` has stored what came. */
  function receiving (
    status: number,
    receive: (request: FastifyRequest, reply: FastifyReply) => Promise<Received>,
    bodyOf: BodyOfRefusal
  ) {
    return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
      try {
        const received = await receive(request, reply)
        count(received.type, received.outcome)
        request.log.info({ event: 'revocation_received', ...received }, 'revocation received')
        return await reply.code(status).send()
      } catch (error) {
        return refuse(request, reply, error as Error, bodyOf)
      }
    }
  }

  /** @throws what is no refusal of ours: it becomes a 500 */
  function refuse (request: FastifyRequest, reply: FastifyReply, error: Error, bodyOf: BodyOfRefusal): FastifyReply {
    if (error instanceof SetError || error instanceof SubjectError) {
      const { err, message } = error instanceof SetError
        ? error
        : new SetError('invalid_request', `The request cannot be understood: ${error.message}.`)
      const isUnauthorized = err === 'authentication_failed'
      count('refused', isUnauthorized ? 'unauthorized' : 'invalid')
      request.log.info(
        { event: 'revocation_refused', reason: isUnauthorized ? 'authorization' : error.message },
        'revocation refused'
      )
      if (isUnauthorized) reply.header('www-authenticate', 'Bearer')
      return reply.code(isUnauthorized ? 401 : 400).header('content-language', 'en').send(bodyOf({ err, message }))
    }
    if (error instanceof ForbiddenSubjectError) {
      count('refused', 'unauthorized')
      request.log.info({ event: 'revocation_refused', reason: error.message }, 'revocation refused')
      decisions.refused(request, { reason: 'access_denied', status: 403 })
      return reply.code(403).send(bodyOf({ err: 'access_denied', message: error.message }))
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

/** For OpenAPI. In an app without @fastify/swagger, nothing declares these members. */
function described (summary: string, consumed: string, schema: object): object {
  return { tags: ['Revocation'], summary, consumes: [consumed], ...schema }
}

/** Only this content type is read. Any other is 415. */
function takeText (scope: Parameters<FastifyPluginAsync>[0], type: string, bodyLimit: number): void {
  scope.removeAllContentTypeParsers()
  scope.addContentTypeParser(type, { parseAs: 'string', bodyLimit }, (_request, body, done) => done(null, body))
}
