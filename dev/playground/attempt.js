// A call or an attack, from the click to the result.
import { call, last, send } from './exchange.js'
import { refresh } from './refresh.js'
import { announce, display, dropStreamLine, fail, showMessage } from './result.js'
import { config, faultOfParties, parties } from './running.js'
import { dpop, expiresIn, logInAsAsked, session, widerLogin } from './session.js'
import { judge } from './verdict.js'
import { resultView } from './view.js'

/** Runs one thing and shows it. Meanwhile the buttons do nothing, so that results do not overtake each other. */
export async function attempt (what, run) {
  if (document.body.getAttribute('aria-busy') === 'true') return
  document.body.setAttribute('aria-busy', 'true')
  for (const button of document.querySelectorAll('.buttons button')) {
    button.toggleAttribute('data-shown', button === document.activeElement)
  }
  dropStreamLine()
  try {
    await refresh()
    const fault = whyNot(what)
    if (fault !== undefined) return showMessage({ title: what.title, tone: 'neutral', word: 'Not sent', says: fault })
    const log = []
    const hasStarted = await run(log) !== false
    const explanation = await explain(last(log), log.slice(0, -1))
    const verdict = judge({ ...what, hasStarted }, last(log), explanation, config)
    display(
      resultView(what, verdict, log, explanation, {
        isProviderUp: parties.keyIds !== undefined,
        announce,
        logInAsAsked,
        wider: widerLogin(last(log))
      })
    )
    announce(
      `${what.title}: ${verdict.word.toLowerCase()}. ${
        last(log).status > 0 ? `The API answered ${last(log).status} ${last(log).statusText}. ` : ''
      }${verdict.says}`
    )
    if (last(log).status === 0) await refresh()
  } catch (error) {
    fail(`${what.title}: this page could not continue`, error)
  } finally {
    document.body.removeAttribute('aria-busy')
  }
}

const whyNot = ({ reasons }) => parties.isApiUp ? reasons && whyNoAttack() : faultOfParties()

/** Why an attack would show nothing; undefined if it would. */
export function whyNoAttack () {
  if (config.mode === 'DISABLED') {
    return 'DPoP is switched off in this service (IDP_DPOP_MODE=DISABLED), so it accepts a stolen token.'
  }
  if (session === undefined) return 'Log in first: each attack starts with a stolen token.'
  if (expiresIn() <= 0) return 'The token has expired, so stealing it is useless. Log in again.'
}

/** The call of the user who is logged in, if any. */
export async function callEndpoint (log, path, guard) {
  const url = config.api + path
  if (session === undefined || guard === 'open to everyone') return send(log, url, {})
  if (config.mode === 'DISABLED') return send(log, url, { authorization: `Bearer ${session.token}` })
  return call(log, url, session.token, dpop)
}

/** The dev server explains why. Without it, the page still shows all that it sent and got. */
async function explain (exchange, before) {
  try {
    const response = await fetch('/explain', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ exchange, before })
    })
    return response.ok ? await response.json() : undefined
  } catch {
    return undefined
  }
}
