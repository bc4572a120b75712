import type { GateSection } from './lib/gate/gate-settings.ts'
import { tuneEngine } from './server/engine.ts'
import { collectSettings, readDotenvInto, readTextIfThere } from './lib/settings/sources.ts'
import { defaultPort } from './lib/settings/settings.ts'

tuneEngine()

readDotenvInto(process.env, readTextIfThere)

// The options that `fastify start -c` reads before it loads the app. The command line fixes the port at that time, and
// the default port depends on the profile. Settings are not judged here: the app judges them, with one message for all
// of them.
const { values: { server, api, gate } } = collectSettings({ environment: process.env, readFile: readTextIfThere })

/** The port is text, because the command line takes the number 0, which means any free port, as no port. */
export const port = String(server.port ?? defaultPort(api.profile))
/** Where the health check of the image asks. */
export const livePath = `${(gate as GateSection | undefined)?.ownPrefix ?? ''}/health/live`
/** The server options come from the app. */
export const options = true
/**
 * Milliseconds: one second more than closing takes at most. Closing takes the drain and the time that
 * `plugins/closing.ts` gives requests in flight.
 */
export const closeGraceDelay = 10_500
