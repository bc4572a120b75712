import { runTool, text, type Tool, type World } from './arguments.ts'
import { BadUsage } from './bad-usage.ts'
import type { Listening } from './start-service.ts'

export interface StartWorld extends World {
  readonly startService: (where: Listening) => Promise<void>
}

/** Where to listen, for each tool that starts the service. */
export const LISTENING = {
  port: { ...text, value: 'NUMBER', says: 'the port to listen on', env: 'PORT' },
  address: { ...text, value: 'ADDRESS', says: 'default: FASTIFY_ADDRESS, else localhost, in Docker 0.0.0.0' }
} as const

/** @throws BadUsage */
export function readListening ({ port, address }: Listening): Listening {
  if (port !== undefined && !(/^\d{1,5}$/.test(port) && Number(port) <= 65_535)) {
    throw new BadUsage(`--port ${port} is not a port`)
  }
  return { port, address }
}

const TOOL = {
  name: 'start',
  options: LISTENING,
  help: run =>
    `Starts the service. It needs two settings: IDP_DOMAIN and IDP_AUDIENCE.

  IDP_DOMAIN=tenant.example IDP_AUDIENCE=https://api.example ${run}`
} as const satisfies Tool

/** Starts the service. It runs on when the exit code has been returned. */
export function start (argv: readonly string[], world: StartWorld): Promise<number> {
  return runTool(TOOL, argv, world, async ({ values }) => {
    await world.startService(readListening(values))
    return 0
  })
}
