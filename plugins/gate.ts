import type { IncomingMessage } from 'node:http'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { openKeysOfGate } from '../lib/assembly/open-statement-keys.ts'
import { metadataOfAudience } from '../lib/assembly/resource-metadata.ts'
import { createExecutor, type Executor, type Findings } from '../lib/gate/executor.ts'
import { GateError } from '../lib/gate/gate-error.ts'
import type { GateSettings } from '../lib/gate/gate-settings.ts'
import {
  createIdentityHeaders,
  OBSERVED_HEADER,
  STATEMENT_HEADER,
  type IdentityHeaders
} from '../lib/gate/identity-headers.ts'
import type { GateRule } from '../lib/gate/rule.ts'
import { bodyTooLarge, createBodyReader, MAX_MESSAGE_BYTES, sendersOf } from '../lib/gate/message-body.ts'
import { findWiderRules, nameMatches } from '../lib/gate/rules.ts'
import type { StatementKeys, StatementKeySource } from '../lib/gate/statement-keys.ts'
import { spare } from '../lib/guard/admission.ts'
import type { RefusedBecause } from '../lib/guard/decisions.ts'
import type { CountedReason } from '../lib/report/metrics/tallies.ts'
import { Refusal } from '../lib/refusal.ts'
import { scopesOf } from '../lib/guard/requirement/route-guard.ts'
import type { UpgradedConnection } from '../lib/gate/upstream/upgrade.ts'
import { processSurroundings } from '../server/surroundings.ts'
import { takeExpectations, takeUpgrades } from './gate/upgrades.ts'

interface Gate {
  readonly settings: GateSettings
  execute: Executor<FastifyRequest>
  /**
   * Logs and counts why a request does not pass, and gives the error to answer with. What the guard has refused is
   * logged and has its status.
   * @param status for every other refusal
   */
  refused (request: FastifyRequest, error: Error, status: GateError['statusCode']): Error
  /** Maximum number of bytes of a body that is judged. */
  readonly maxBodyBytes: number
  /** Reads the body of a request that is to be judged by it, and has the client send it if it waits. */
  readBody (request: FastifyRequest, reply: FastifyReply): Promise<Buffer>
  /** The headers that name the sender of a request to the upstream. */
  identify (request: FastifyRequest, audience: string | undefined): IdentityHeaders
  /** The audiences of rules that are resources of their own, each with the scopes that its rules ask for. */
  readonly resources: ReadonlyMap<string, ReadonlySet<string>>
  /** With which statements are verified. Undefined if nothing is signed. */
  readonly keySet: (() => object) | undefined
  /** The connection of a request that asks for another protocol. */
  upgradeOf (request: IncomingMessage): UpgradedConnection | undefined
  /** Has a client that waits for 100 send the body. */
  goAhead (request: FastifyRequest, reply: FastifyReply): void
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Undefined if the service is no gate. */
    gate: Gate | undefined
  }
  interface FastifyRequest extends Findings {}
}

/** Decorates `app.gate`: the rules, and what the upstream learns. The doors are routes/gate.ts and routes/verify.ts. */
export default fp(async (app: FastifyInstance) => {
  const settings = app.settings.gate
  app.decorateRequest('gated', null)
  app.decorateRequest('mcpMatches', null)
  app.decorateRequest('mcpRequest', null)
  app.decorateRequest('listCut', null)
  if (!settings) {
    app.decorate('gate', undefined)
    return
  }
  const resources = readResources(app, settings.rules)
  const { decisions, tally, parts: { observing } } = app.holdfastGuard
  // The service's own paths have routes of their own.
  decisions.namers.push(request => {
    const { gated, mcpMatches } = request
    if (!gated) return isDoor(request) ? { method: request.method, route: undefined, call: undefined } : undefined
    return {
      method: gated.method,
      route: gated.pathRules.rules[0].path || undefined,
      call: mcpMatches ? nameMatches(mcpMatches) : undefined
    }
  })
  const execute = createExecutor<FastifyRequest>({
    rules: settings.rules,
    exactPaths: settings.exactPaths,
    admissionOf: audiences =>
      app.holdfastGuard.admissionOf(
        ({ gated }) => gated!.url.host === '' ? { ...gated!, url: undefined } : gated!,
        audiences
      ),
    isObserved: request => observing?.spares(request) === true,
    passRefused (request, error) {
      const { reason, statusCode: status } = error
      report(request, error, { reason, status, isObserved: true })
      spare(request, { reason, status })
    },
    onMessagesJudged: ({ gated, mcpMatches }, hasPassed) =>
      tally?.judged(gated!.pathRules.rules[0].path, mcpMatches ?? undefined, hasPassed)
  })
  const { timeoutSeconds, bodyLimit = MAX_MESSAGE_BYTES } = settings
  const maxBytes = Math.min(bodyLimit, MAX_MESSAGE_BYTES)
  const readWhole = createBodyReader({ maxBytes, timeoutMs: timeoutSeconds * 1000, after: processSurroundings.after })
  const identityHeaders = createIdentityHeaders(settings.claims)
  const signing = settings.statementKey && await openSigner(app, settings.statementKey)
  // Under `true` the client itself may have written the first of the addresses: the nearest proxy's word counts.
  const addressOf = app.settings.server.trustProxy === true
    ? ({ ips, ip }: FastifyRequest) => ips?.[1] ?? ip
    : ({ ip }: FastifyRequest) => ip
  const upgrades = new WeakMap<IncomingMessage, UpgradedConnection>()
  const expecting = new WeakSet<IncomingMessage>()
  // It may hold a secret.
  const isPathLogged = ['debug', 'trace'].includes(app.settings.server.logLevel)
  if (settings.rules.length === 0) app.log.warn('The gate has no rules, so nothing passes it')
  for (const [path, wider] of findWiderRules(settings.rules)) {
    app.log.warn(
      { event: 'wider_rule', path, wider, exactPaths: settings.exactPaths },
      'Beside the rules for messages of a path there are rules for wider paths: whatever the upstream serves ' +
        'there, tools included, needs no more than they ask for'
    )
  }
  if (settings.upstream !== undefined) {
    if (observing || settings.rules.some(({ upgrade }) => upgrade)) takeUpgrades(app.server, app.routing, upgrades)
    takeExpectations(app.server, app.connections.inTurn(app.routing), expecting)
  }

  app.decorate(
    'gate',
    {
      settings,
      execute,
      resources,
      keySet: signing && (() => signing.current.keySet),
      maxBodyBytes: maxBytes,
      upgradeOf: request => upgrades.get(request),
      refused (request, error, status) {
        const isGateError = error instanceof GateError
        if (!isGateError && !(error instanceof Refusal && !error.headers)) return error
        const { message } = error
        const reason = status === 403 && error.reason === 'message_refused' ? 'question_refused' : error.reason
        report(request, error, { reason, status })
        return app.httpErrors.createError(status, message, isGateError ? { rpcCode: error.rpcCode, reason } : {})
      },
      async readBody (request, reply) {
        // The client need not send what is not read.
        if (Number(request.raw.headers['content-length']) > maxBytes) throw bodyTooLarge()
        this.goAhead(request, reply)
        const { auth, raw } = request
        const caller = auth ? { issuer: auth.issuer, subject: request.user!.sub } : undefined
        return readWhole(raw, reply.raw, sendersOf(addressOf(request), caller))
      },
      goAhead ({ raw }, reply) {
        if (expecting.delete(raw)) reply.raw.writeContinue()
      },
      identify (request, audience) {
        const { user, auth, observed } = request
        const caller = auth ? { claims: user!, scopes: auth.scopes, issuer: auth.issuer } : undefined
        // Always told, as all others are: one that is missing could come from the client.
        const headers = observing?.isOn() || observed
          ? { ...identityHeaders(caller), [OBSERVED_HEADER]: observed?.reason ?? '' }
          : identityHeaders(caller)
        if (!signing) return headers
        const { method, target, url } = request.gated!
        const issuer = app.settings.server.publicUrl ?? url.href.slice(0, -url.ownPath.length)
        const path = target.split('?', 1)[0]!
        return {
          ...headers,
          [STATEMENT_HEADER]: caller ? signing.current.sign(caller, { issuer, audience: audience!, method, path }) : ''
        }
      }
    } satisfies Gate
  )

  function report (
    request: FastifyRequest,
    error: GateError | Refusal,
    because: RefusedBecause & { readonly reason: CountedReason }
  ): void {
    const { reason, status, isObserved = false } = because
    const { message, detail: { path, ...detail } = {} } = error
    request.log.info({
      reason,
      ...isObserved && { enforced: false, status },
      ...error instanceof GateError && { fault: message },
      ...detail,
      ...isPathLogged && { path },
      route: decisions.routeOf(request).route
    }, isObserved ? 'request would be refused' : 'request refused')
    tally?.refused(reason, undefined, isObserved)
    decisions.refused(request, because)
  }
}, { name: 'gate', dependencies: ['connections', 'holdfast-auth', 'route-guard', 'sensible'] })

/** Whether the route of a request is one under which requests are judged by the rules. */
function isDoor ({ routeOptions: { url = '' } }: FastifyRequest): boolean {
  return url === '/*' || url.startsWith('/verify/')
}

/** Puts the scope of each rule to the resource that it guards: the service, or that of its audience. */
function readResources (app: FastifyInstance, rules: readonly GateRule[]): Map<string, Set<string>> {
  const resources = new Map<string, Set<string>>()
  const unreachable = new Set<string>()
  for (const { requirement, audiences: [audience] = [] } of rules) {
    const metadata = metadataOfAudience(audience, app.settings)
    if (metadata === 'none') unreachable.add(audience!)
    if (metadata === 'own' && !resources.has(audience!)) resources.set(audience!, new Set())
    const scopes = metadata === 'default' ? app.guardedScopes : resources.get(audience!)
    for (const scope of requirement ? scopesOf(requirement) : []) scopes?.add(scope)
  }
  for (const audience of unreachable) {
    app.log.warn(
      { event: 'audience_unreachable', audience },
      'The audience of a rule is a client, or not an https URL, so no metadata leads to a token for it: clients of ' +
        'that rule must know it beforehand'
    )
  }
  return resources
}

/** @throws SettingsError */
async function openSigner (app: FastifyInstance, sources: readonly StatementKeySource[]): Promise<StatementKeys> {
  const keys = await openKeysOfGate({
    ...processSurroundings,
    sources,
    onChange (error) {
      if (error) {
        app.log.warn(
          { event: 'statement_key_unusable', path: error.source, fault: error.message },
          'A file of gate.statementKey cannot be used. The keys stay as they were'
        )
      } else app.log.info({ event: 'statement_keys_read' }, 'statement keys read')
    }
  })
  app.addHook('onClose', async () => keys.close())
  return keys
}
