import { METHODS } from 'node:http'
import { TOOL_CALL } from '../lib/gate/mcp-methods.ts'
import type { McpMessage } from '../lib/gate/mcp-message.ts'
import { endOfDay } from '../lib/guard/observing.ts'
import { collectSettings, type SettingsSources } from '../lib/settings/sources.ts'
import { isGate, readGate } from '../lib/settings/validation.ts'
import { flag, runTool, text, unknownName, type Tool } from './arguments.ts'
import { BadUsage } from './bad-usage.ts'
import { explainRule } from './gate-explanation.ts'
import { LISTENING, readListening, type StartWorld } from './start.ts'

interface GateWorld extends StartWorld {
  readonly readFile: SettingsSources['readFile']
}

const TOOL = {
  name: 'gate',
  options: {
    upstream: { ...text, value: 'URL', says: 'the service to guard', env: 'GATE_UPSTREAM' },
    ...LISTENING,
    explain: { ...flag, says: 'say which rule holds for a request, and why; start nothing' },
    mcp: {
      ...text,
      value: 'METHOD',
      says: 'with --explain: the message of the Model Context Protocol; a NAME after the PATH is its tool'
    }
  },
  mostWords: 3,
  help: run =>
    `Guards another service: a request reaches it only with a token that passes, and under a rule.
It needs two settings: IDP_DOMAIN (or IDP_ISSUER) and IDP_AUDIENCE.

  IDP_DOMAIN=tenant.example IDP_AUDIENCE=https://api.example ${run} --upstream http://127.0.0.1:3000
  ${run}                                 with the section gate of the configuration file
  ${run} --explain [METHOD] PATH         such as --explain GET /orders/7
  ${run} --explain POST PATH --mcp METHOD [NAME]   such as --explain POST /mcp --mcp tools/call delete_order`,
  ending: () =>
    `--upstream takes the place of gate.upstream; everything else comes from the section gate of the configuration file.
With --upstream and without gate.rules, any valid token passes for every path and method. Without --upstream and
gate.upstream, other proxies ask: docs/guide/gate.md. The PATH of --explain is without the prefix of PUBLIC_URL.
Exit code of --explain: 0 if a rule holds, else 1.`
} as const satisfies Tool

/** Starts the service as a gate, or explains its rules. A gate runs on when the exit code has been returned. */
export function gate (argv: readonly string[], world: GateWorld): Promise<number> {
  return runTool(
    TOOL,
    argv,
    world,
    async ({ values: { upstream, explain = false, mcp, ...where }, positionals }, paint) => {
      const { env, out, readFile, startService } = world
      if (mcp !== undefined && !explain) throw new BadUsage('--mcp says which message --explain is about')
      if (positionals.length > 0 && !explain) {
        throw new BadUsage(
          `Unexpected argument: ${positionals.join(' ')}. Did you mean --explain?`
        )
      }
      // The option is the variable: the service reads it with all others.
      if (upstream !== undefined) env['GATE_UPSTREAM'] = upstream
      const collected = collectSettings({ environment: env, readFile })
      const given = collected.values
      if (!isGate(given) && !collected.isUnread) {
        throw new BadUsage(
          'Which service is to be guarded? Say --upstream URL, or write a section gate into the configuration file'
        )
      }
      if (!explain) {
        await startService(readListening(where))
        return 0
      }
      const { idp: { audience }, server: { observe } } = given
      // A rule can be looked at before there is a provider.
      const { text, holds } = explainRule(readRequest(positionals, mcp), {
        settings: await readGate(collected),
        places: collected.places,
        observedUntil: Date.now() / 1000 < endOfDay(String(observe)) ? String(observe) : undefined,
        audience
      }, paint)
      out.write(text)
      return holds ? 0 : 1
    }
  )
}

/**
 * @param mcp the method of a message. Then what follows the path is the name of its tool.
 * @throws BadUsage
 */
function readRequest (
  positionals: readonly string[],
  mcp: string | undefined
): { method: string, target: string, message: McpMessage | undefined } {
  const [method, target, name] = positionals.length === 1 ? ['GET', ...positionals] : positionals
  if (method === undefined || target === undefined || (mcp === undefined && name !== undefined)) {
    throw new BadUsage('Say what to explain, such as --explain GET /orders/7')
  }
  // The case of a method counts.
  if (!METHODS.includes(method)) {
    throw new BadUsage(
      METHODS.includes(method.toUpperCase())
        ? `There is no method ${method}; did you mean ${method.toUpperCase()}?`
        : unknownName('method', method, METHODS)
    )
  }
  if (!/^(?:\/|https?:\/\/)/i.test(target)) {
    throw new BadUsage(`"${target}" is neither a path that starts with / nor a URL`)
  }
  if (mcp === TOOL_CALL && name === undefined) {
    throw new BadUsage(`A message ${TOOL_CALL} names a tool: --mcp ${TOOL_CALL} NAME`)
  }
  return { method, target, message: mcp === undefined ? undefined : { method: mcp, name } }
}
