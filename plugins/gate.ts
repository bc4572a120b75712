import type { IncomingMessage } from 'node:http'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { openKeysOfGate } from '../lib/assembly/open-statement-keys.ts'
import { metadataOfAudience } from '../lib/assembly/resource-metadata.ts'
import { createExecutor, type Findings } from '../lib/gate/executor.ts'
import { GateError } from '../lib/gate/gate-error.ts'
import type { GateSettings } from '../lib/gate/gate-settings.ts'
import { createIdentityHeaders, OBSERVED_HEADER, STATEMENT_HEADER } from '../lib/gate/identity-headers.ts'
import { KNOWN_METHODS, type GateRule } from '../lib/gate/rule.ts'
import { bodyTooLarge, createBodyReader, MAX_MESSAGE_BYTES, sendersOf } from '../lib/gate/message-body.ts'
import { findWiderRules, nameMatches } from '../lib/gate/rules.ts'
import type { StatementKeys, StatementKeySource } from '../lib/gate/statement-keys.ts'
import { spare } from '../lib/guard/admission.ts'
import type { RefusedBecause } from '../lib/guard/decisions.ts'
import type { CountedReason } from '../lib/report/metrics/tallies.ts'
import { Refusal } from '../lib/refusal.ts'
import { gateWarnings } from '../lib/settings/start-report.ts'
import { scopesOf } from '../lib/guard/requirement/route-guard.ts'
import type { UpgradedConnection } from '../lib/gate/upstream/upgrade.ts'
import { UNROUTABLE } from '../server/request-ends.ts'
import { processSurroundings } from '../server/surroundings.ts'
import { takeExpectations, takeUpgrades } from './gate/upgrades.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Absent if the service is no gate. */
    gate: Awaited<ReturnType<typeof createGate>> | undefined
  }
  interface FastifyRequest extends Findings {}
}

/** Decorates `app.gate`: the rules, and what the upstream learns. The doors are routes/gate.ts and routes/verify.ts. */
export default fp(async (app) => {
  const settings = app.settings.gate
  app.decorateRequest('gated', null)
  app.decorateRequest('mcpMatches', null)
  app.decorateRequest('mcpRequest', null)
  app.decorateRequest('listCut', null)
  app.decorate('gate', settings && await createGate(app, settings))
}, { name: 'gate', dependencies: ['connections', 'holdfast-auth', 'sensible'] })

async function createGate (app: FastifyInstance, settings: GateSettings) {
  // A client of the upstream may use any, and Envoy asks with the method of the client.
  for (const method of KNOWN_METHODS) if (!app.supportedMethods.includes(method)) app.addHttpMethod(method)
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
  const execute = createExecutor({
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
  for (const warning of gateWarnings(app.settings)) app.log.warn(warning)
  for (const [path, wider] of findWiderRules(settings.rules)) {
    app.log.warn(
      { event: 'wider_rule', path, wider, exactPaths: settings.exactPaths },
      'Beside the rules for messages of a path there are rules for wider paths: whatever the upstream serves ' +
        'there, tools included, needs no more than they ask for'
    )
  }
  app.server.on(UNROUTABLE, (request: FastifyRequest, _reply: FastifyReply, status: 400 | 403) => {
    // Without an upstream only proxies have a door here.
    if (settings.upstream === undefined && status !== 403) return
    refused(request, new Refusal('target_path', { detail: { cause: 'escape' } }), status)
  })
  if (settings.upstream !== undefined) {
    if (observing || settings.rules.some(({ upgrade }) => upgrade)) takeUpgrades(app.server, app.routing, upgrades)
    takeExpectations(app.server, app.connections.inTurn(app.routing), expecting)
  }

  return {
    settings,
    execute,
    /** The audiences of rules that are resources of their own, each with the scopes that its rules ask for. */
    resources: resources as ReadonlyMap<string, ReadonlySet<string>>,
    /** With which statements are verified, or undefined if nothing is signed. */
    keySet: signing && (() => signing.current.keySet),
    /** Maximum number of bytes of a body that is judged. */
    maxBodyBytes: maxBytes,
    /** The connection of a request that asks for another protocol. */
    upgradeOf: (request: IncomingMessage) => upgrades.get(request),
    refused,
    /** Reads the body of a request that is to be judged by it, and has the client send it if it waits. */
    async readBody (request: FastifyRequest, reply: FastifyReply): Promise<Buffer> {
      // The client need not send what is not read.
      if (Number(request.raw.headers['content-length']) > maxBytes) throw bodyTooLarge()
      goAhead(request, reply)
      // Its token may end before the body has come.
      app.holdfastGuard.endWithToken?.(request)
      const { auth, raw } = request
      const caller = auth ? { issuer: auth.issuer, subject: request.user!.sub } : undefined
      return readWhole(raw, reply.raw, sendersOf(addressOf(request), caller))
    },
    goAhead,
    identify
  }

  /** Has a client that waits for 100 send the body. */
  function goAhead ({ raw }: FastifyRequest, reply: FastifyReply) {
    if (expecting.delete(raw)) reply.raw.writeContinue()
  }

  /** The headers that name the sender of a request to the upstream. */
  function identify (request: FastifyRequest, audience: string | undefined) {
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

  /**
   * Logs and counts why a request does not pass, and gives the error to answer with. What the guard has refused is
   * logged and has its status.
   * @param status for every other refusal
   */
  function refused (request: FastifyRequest, error: Error, status: GateError['statusCode']) {
    const isGateError = error instanceof GateError
    if (!isGateError && !(error instanceof Refusal && !error.headers)) return error
    const { message } = error
    const reason = status === 403 && error.reason === 'message_refused' ? 'question_refused' : error.reason
    report(request, error, { reason, status })
    return app.httpErrors.createError(status, message, isGateError ? { rpcCode: error.rpcCode, reason } : {})
  }

  function report (
    request: FastifyRequest,
    error: GateError | Refusal,
    because: RefusedBecause & { readonly reason: CountedReason }
  ) {
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
}

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
    const scopes = metadata === 'default' ? app.holdfastGuard.guardedScopes : resources.get(audience!)
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
