import { readFileSync } from 'node:fs'
import { ServerResponse } from 'node:http'
import type { IncomingMessage } from 'node:http'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { scopesOf } from '../lib/guard/route-guard.ts'
import type { Admission } from '../lib/guard/admission.ts'
import { verifyOneReading } from '../lib/gate/path.ts'
import { createRules } from '../lib/gate/rules.ts'
import type { GateRule } from '../lib/gate/rules.ts'
import type { GateSettings } from '../lib/gate/gate-settings.ts'
import { createStatementSigner } from '../lib/gate/statement.ts'
import type { StatementSigner } from '../lib/gate/statement.ts'
import { createTold, STATEMENT_HEADER } from '../lib/gate/told.ts'
import type { ToldHeaders } from '../lib/gate/told.ts'
import { dropRest } from '../lib/gate/upgrade.ts'
import type { UpgradedConnection } from '../lib/gate/upgrade.ts'
import type { ReceivedRequest } from '../lib/message.ts'
import { SettingsError } from '../lib/settings/problems.ts'
import type { RequestUrl } from '../lib/url/request-url.ts'
import type { Connection } from '../server/queued-response.ts'
import { processSurroundings } from '../server/surroundings.ts'

/** A request before the gate: the one that arrived, or the one that a proxy asks about. */
export interface GatedRequest {
  readonly received: ReceivedRequest
  /** Path and query, as the client sent them. */
  readonly target: string
  readonly url: RequestUrl
  readonly rule: GateRule
}

export interface Gate {
  readonly settings: GateSettings
  /**
   * Finds the rule for a request. Undefined if there is none.
   * @throws Refusal target_path if the path can be read in two ways
   */
  enter (received: ReceivedRequest, target: string, url: RequestUrl): GatedRequest | undefined
  /** Lets a request pass that meets its rule. `done` is called once. */
  judge (request: FastifyRequest, done: (error?: Error) => void): void
  /** The headers that tell the upstream who sends a request. */
  tell (request: FastifyRequest, audience: string | undefined): ToldHeaders
  /** Undefined if nothing is signed. */
  readonly keySet: object | undefined
  /** The connection of a request that asks for another protocol. */
  upgradeOf (request: IncomingMessage): UpgradedConnection | undefined
  /** Whether the client waits for 100 before it sends the body. */
  expectsContinue (request: IncomingMessage): boolean
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Undefined if the service is no gate. */
    gate: Gate | undefined
  }
  interface FastifyRequest {
    gated: GatedRequest | null
  }
}

/** Decorates `app.gate`: the rules, and what the upstream is told. The ways in are routes/gate.ts and routes/verify.ts. */
export default fp(async (app: FastifyInstance) => {
  const settings = app.settings.gate
  app.decorateRequest('gated', null)
  if (!settings) {
    app.decorate('gate', undefined)
    return
  }
  const rules = createRules(settings.rules)
  const admissions = createAdmissions(app, settings.rules)
  const told = createTold(settings.claims)
  const signer = settings.statementKey === undefined ? undefined : readSigner(settings.statementKey)
  const upgrades = new WeakMap<IncomingMessage, UpgradedConnection>()
  const expecting = new WeakSet<IncomingMessage>()
  if (settings.rules.length === 0) app.log.warn('The gate has no rules, so nothing passes it')
  if (settings.upstream !== undefined && settings.rules.some(({ upgrade }) => upgrade)) takeUpgrades(app, upgrades)
  if (settings.upstream !== undefined) takeExpectations(app, expecting)

  app.decorate('gate', {
    settings,
    keySet: signer?.keySet,
    upgradeOf: request => upgrades.get(request),
    expectsContinue: request => expecting.has(request),
    enter (received, target, url) {
      verifyOneReading(url.ownPath)
      const rule = rules.find(received.method!, url.ownPath)
      return rule && { received, target, url, rule }
    },
    judge (request, done) {
      const { rule } = request.gated!
      if (rule.requirement === undefined) return done()
      admissions.get(rule)!.admit(request, rule.requirement, done)
    },
    tell (request, audience) {
      const { user: claims, auth } = request
      const caller = claims && auth ? { claims, scopes: auth.scopes, issuer: auth.issuer } : undefined
      const headers = told(caller)
      if (!signer) return headers
      const { received: { method }, target, url } = request.gated!
      const issuer = app.settings.PUBLIC_URL ?? url.href.slice(0, -url.ownPath.length)
      const path = target.split('?', 1)[0]!
      return { ...headers, [STATEMENT_HEADER]: caller ? signer.sign(caller, { issuer, audience: audience!, method: method!, path }) : '' }
    }
  } satisfies Gate)
}, { name: 'gate', dependencies: ['auth', 'route-guard'] })

/** Rules with the same audience share a guard. */
function createAdmissions (app: FastifyInstance, rules: readonly GateRule[]): ReadonlyMap<GateRule, Admission<FastifyRequest>> {
  const byAudience = new Map<string | undefined, Admission<FastifyRequest>>()
  const admissions = new Map<GateRule, Admission<FastifyRequest>>()
  for (const rule of rules) {
    if (rule.requirement === undefined) continue
    for (const scope of scopesOf(rule.requirement)) app.guardedScopes.add(scope)
    const admission = byAudience.get(rule.audience) ?? app.admissionOf(({ gated }) => gated!.received, rule.audience)
    byAudience.set(rule.audience, admission)
    admissions.set(rule, admission)
  }
  return admissions
}

/** @throws SettingsError */
function readSigner (path: string): StatementSigner {
  const problem = (fault: string): SettingsError => new SettingsError([`gate.statementKey is ${JSON.stringify(path)}: ${fault}`])
  let pem: string
  try {
    pem = readFileSync(path, 'utf8')
  } catch (error) {
    throw problem(`the file cannot be read (${(error as NodeJS.ErrnoException).code})`)
  }
  try {
    return createStatementSigner(pem, processSurroundings)
  } catch (error) {
    throw problem((error as Error).message)
  }
}

/**
 * Has requests for another protocol routed like all others, so that the same rules and the same guard hold for them. Node hands over the
 * connection with them and reads it no further. So an answer is the last thing on such a connection.
 */
function takeUpgrades (app: FastifyInstance, upgrades: WeakMap<IncomingMessage, UpgradedConnection>): void {
  app.server.on('upgrade', (request: IncomingMessage, socket: Connection, head: Buffer) => {
    socket.on('error', () => socket.destroy())
    // The answers to earlier requests would come too late: a connection has one answer at a time.
    if (socket._httpMessage) return socket.destroy()
    upgrades.set(request, { socket, head })
    const response = new ServerResponse(request)
    response.shouldKeepAlive = false
    response.assignSocket(socket)
    response.on('finish', () => {
      socket.end()
      dropRest(socket)
    })
    app.routing(request, response)
  })
}

/** By itself, Node answers 100 before anybody has looked at the request. A client that is refused need not send its body. */
function takeExpectations (app: FastifyInstance, expecting: WeakSet<IncomingMessage>): void {
  app.server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    expecting.add(request)
    app.routing(request, response)
  })
}
