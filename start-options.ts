import { tuneEngine } from './server/engine.ts'
import { readTextIfThere, collectSettings } from './lib/settings/sources.ts'
import { defaultPort } from './lib/settings/settings.ts'

tuneEngine()

// What `fastify start -c` reads before it loads the app: the command line fixes the port by then, and its default depends
// on the profile. Settings are not judged here; the app does that, with one message for all of them.
const { PORT, API_PROFILE } = collectSettings({ environment: process.env, readFile: readTextIfThere }).values

/** Text, since the command line takes the number 0, any free port, for none. */
export const port = String(PORT ?? defaultPort(API_PROFILE))
/** Server options come from the app. */
export const options = true
/** Milliseconds: a second more than closing takes at most, which is the drain and what `plugins/closing.ts` gives requests in flight. */
export const closeGraceDelay = 10_500
