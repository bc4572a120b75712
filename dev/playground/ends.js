// What ends the session, and a stream of events that ends with it.
import { attempt, callEndpoint } from './attempt.js'
import { choice } from './choices.js'
import { byId } from './dom.js'
import { logOut, logOutEverywhere } from './login.js'
import { render } from './refresh.js'
import { announce } from './result.js'
import { config } from './running.js'
import { claimsOfToken, dpop, markEnded, session } from './session.js'
import { openStream } from './stream.js'

const STREAM_END_MS = 3000

/** The open stream, if any. */
let stream

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
    choice(
      'end-note',
      { 'data-end': 'stream' },
      'Open a stream',
      `GET ${config.samples.stream}: events, for as long as the token lives`,
      watchStream
    ),
    ...ENDS.map(what =>
      choice('end-note', { 'data-end': what.id }, what.title, what.story, () =>
        attempt(what, async log => {
          await what.run()
          await markEnded()
          render()
          await Promise.race([stream?.ended, new Promise(resolve => setTimeout(resolve, STREAM_END_MS))])
          await callEndpoint(log, config.samples.anyToken)
        }))
    )
  )
}

async function watchStream () {
  if (stream !== undefined) return
  const began = Date.now()
  try {
    stream = await openStream(
      config.api + config.samples.stream,
      session.token,
      config.mode === 'DISABLED' ? undefined : dpop,
      events => tellStream(`The stream is open: ${events} so far.`)
    )
    announce('The stream is open.')
    const events = await stream.ended
    tellStream(
      `The API has ended the stream. Events received: ${events}. Seconds since it was opened: ` +
        `${Math.round((Date.now() - began) / 1000)}.`
    )
    announce('The stream has ended.')
  } catch (error) {
    tellStream(`The stream could not be opened: ${error.message}.`)
  }
  stream = undefined
}

function tellStream (text) {
  byId('stream-state').hidden = false
  byId('stream-state').textContent = text
}
