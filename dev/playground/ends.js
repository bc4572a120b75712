// The buttons of what ends the session, and of a stream of events that ends with it.
import { attempt, callEndpoint } from './attempt.js'
import { choice } from './choices.js'
import { byId } from './dom.js'
import { logOut, logOutEverywhere } from './login.js'
import { render } from './refresh.js'
import { config } from './running.js'
import { claimsOfToken, markEnded } from './session.js'
import { storyOfStream, streamEnd, watchStream } from './watch.js'

const STREAM_END_MS = 3000

const LESSON =
  'Open responses of this token have ended with it. The check below shows the event, its sender and its time.'

/** What ends the session, and how the API learns of it. */
const ENDS = [
  {
    id: 'session',
    title: 'Log out',
    story: 'The provider ends this session, and sends a back-channel logout to the API.',
    lesson: LESSON,
    ends: true,
    run: () => logOut(config)
  },
  {
    id: 'everywhere',
    title: 'Log out everywhere',
    story: 'A transmitter sends the event session-revoked for this user, and the provider ends this session.',
    lesson: LESSON,
    ends: true,
    run: async () => {
      await logOut(config)
      await logOutEverywhere(claimsOfToken().sub)
    }
  }
]

export function showEnds () {
  byId('end').hidden = false
  byId('ends').append(
    choice('end-note', { 'data-end': 'stream' }, 'Open a stream', storyOfStream(), watchStream),
    ...ENDS.map(what =>
      choice('end-note', { 'data-end': what.id }, what.title, what.story, () =>
        attempt(what, async log => {
          await what.run()
          await markEnded()
          render()
          await Promise.race([streamEnd(), new Promise(resolve => setTimeout(resolve, STREAM_END_MS))])
          await callEndpoint(log, config.samples.anyToken)
        }))
    )
  )
}
