import type { FastifyInstance, FastifyPluginAsync } from 'fastify'
import { listenFailure } from './server/listen-failure.ts'
import { holdfast, judgeSettings, serverOptions, type ServerOptions } from './holdfast.ts'
import { JWT_PACKAGES } from './plugins/auth/jwt-packages.ts'
import { SettingsError } from './lib/base/settings-error.ts'
import { readTextIfThere, collectSettings } from './lib/settings/sources.ts'

/**
 * The entry point that fastify-cli opens: `fastify start -o app.js`. This module reads the settings while it loads. The
 * command line makes the server, which needs some settings, before it registers the plugin below.
 */
const settings = await judgeSettings(
  collectSettings({ environment: process.env, readFile: readTextIfThere })
)

/** Server options. fastify-cli uses them with `-o`. */
export const options: ServerOptions = serverOptions(settings)

const START_SECONDS = 120
const TOO_SLOW =
  `The service has not started within ${START_SECONDS} s: the machine is too busy, or a plugin or route of yours ` +
  'waits for something that does not come.'

const app: FastifyPluginAsync = async (fastify: FastifyInstance, _options: object) => {
  // The command line would show the stack of Node. It listens once all of this has loaded, so nothing has begun that
  // needs an end.
  fastify.server.on('error', error => {
    const sentence = listenFailure(error)
    if (sentence === undefined) throw error
    stop(sentence)
  })
  const slow = setTimeout(() => stop(TOO_SLOW), START_SECONDS * 1000)
  try {
    await fastify.register(holdfast, { settings, jwtTools: JWT_PACKAGES })
  } catch (error) {
    // Some settings can only be judged by what they name, such as a file, or by the server. Here too, the command line
    // would show the stack.
    if (!(error instanceof SettingsError)) throw error
    stop(error.message)
  }
  fastify.addHook('onReady', async () => clearTimeout(slow))
}
export default app

function stop (sentence: string): never {
  process.stderr.write(`${sentence}\n`)
  process.exit(1)
}
