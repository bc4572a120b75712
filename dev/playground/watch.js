// One open stream of events, and what becomes of it.
import { attempt } from './attempt.js'
import { byId } from './dom.js'
import { recorder, sendBound } from './exchange.js'
import { announce, showMessage, tellStream } from './result.js'
import { config } from './running.js'
import { dpop, session } from './session.js'

/** The open stream, if any. */
let stream

const TITLE = 'Open a stream'

export const storyOfStream = () => `GET ${config.samples.stream}: events, for as long as the token lives`

/** Settles when the open stream is over; undefined if there is none. */
export const streamEnd = () => stream?.ended

export function watchStream () {
  if (stream === undefined) return attempt({ title: TITLE, story: `${storyOfStream()}.` }, open)
  showMessage({ title: TITLE, tone: 'neutral', word: 'Already open', says: 'Log out, and it ends.' })
}

async function open (log) {
  const proofs = config.mode === 'DISABLED' ? undefined : dpop
  const opened = await openStream(log, config.api + config.samples.stream, session.token, proofs)
  if (opened === undefined) return
  stream = { close: opened.close }
  stream.ended = watch(stream, opened.counts)
}

async function watch (mine, counts) {
  const began = Date.now()
  let events = 0
  tell('The stream is open.', true)
  for await (events of counts) if (stream === mine) tell(`The stream is open: ${events} so far.`, true)
  // The page may have closed it.
  if (stream !== mine) return
  stream = undefined
  const seconds = Math.round((Date.now() - began) / 1000)
  tell(`The API has ended the stream. Events received: ${events}. Seconds since it was opened: ${seconds}.`, false)
  announce('The stream has ended.')
}

/** Closes the stream together with the session to which it belongs. */
export function closeStream () {
  stream?.close()
  stream = undefined
  tell('', false)
}

/** Beside the button and in the result, which may cover the button. */
function tell (text, isOpen) {
  byId('stream-state').hidden = text === ''
  byId('stream-state').textContent = text
  tellStream(text, isOpen)
}

/** The body of a stream has no end, so only that of a refusal is noted. */
const bodyOfRefusal = response => response.ok ? '' : response.clone().text()

/**
 * Opens a stream of server-sent events with the token. Resolves when it has begun, with `counts`, the numbers of events
 * so far until the stream is over, and `close`. It is undefined if it did not begin; the log says why.
 */
async function openStream (log, url, token, dpop) {
  const response = await request(recorder(log, bodyOfRefusal), url, token, dpop).catch(() => undefined)
  if (!response?.ok) return undefined
  const reader = response.body.getReader()
  return { counts: countsOf(reader), close: () => reader.cancel() }
}

function request (fetchAs, url, token, dpop) {
  return dpop === undefined
    ? fetchAs(url, { method: 'GET', headers: { authorization: `Bearer ${token}` } })
    : sendBound(fetchAs, url, token, dpop)
}

async function * countsOf (reader) {
  const decoder = new TextDecoder()
  let events = 0
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      events += decoder.decode(value, { stream: true }).split('\n\n').length - 1
      yield events
    }
  } catch {
    // The service cuts it off, so that a part is not mistaken for the whole.
  }
}
