// Keeps what the page shows true to what runs.
import { announce } from './result.js'
import { lookAgain, parties } from './running.js'
import { end, farewell, isOfThisProvider, session } from './session.js'

const renderers = []

/** Has `render` called whenever what it shows may have changed, in the order in which they were given. */
export const whenChanged = render => renderers.push(render)

export function render () {
  for (const show of renderers) show()
}

/** Looks what runs, drops a token that no provider here has issued, and shows all of it. */
export async function refresh () {
  await lookAgain()
  if (session !== undefined && parties.keyIds !== undefined && !isOfThisProvider()) {
    await end('The token came from a provider that no longer runs, so this page deleted it. Log in again.')
    announce(farewell)
  }
  render()
}
