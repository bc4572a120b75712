/* global location, matchMedia */
import * as oauth from '/vendor/oauth4webapi.js'
import { ATTACKS } from './attacks.js'
import { byId, element } from './dom.js'
import { call, last, send } from './exchange.js'
import { finishLogin, forget, keyPair, startLogin } from './login.js'
import { jwtView, resultView } from './view.js'

const config = await (await fetch('/config.json')).json()
const client = { client_id: config.clientId }
let session
/** What is sent where there is a choice: one handle, so that the nonce of one call serves the next. */
let dpop
let keys

const ENDPOINTS = [
  ['/api/public', 'open to everyone'],
  ['/api/private', 'a token'],
  ['/api/private-scoped', 'read:messages'],
  ['/api/protected', 'a token'],
  ['/api/profile', 'a token'],
  ['/api/users', 'read:users or write:users'],
  ['/api/admin', 'admin']
]

await begin()

async function begin () {
  showAddresses()
  showPermissions()
  showEndpoints()
  showAttacks()
  byId('login-form').addEventListener('submit', (event) => {
    event.preventDefault()
    const chosen = [...byId('permissions').querySelectorAll('input:checked')].map(({ value }) => value)
    startLogin(config, chosen).catch((error) => fail('The login did not start.', error))
  })
  byId('logout').addEventListener('click', async () => {
    await forget()
    await showSession(undefined)
    byId('login').focus()
    announce('Token and key are deleted.')
  })
  try {
    await showSession(await finishLogin(config))
  } catch (error) {
    fail('The login failed.', error)
  }
  document.body.dataset.ready = 'true'
}

function showAddresses () {
  const rows = [['API', config.api], ['Identity provider', config.issuer], ['This page', location.origin]]
  byId('addresses').append(...rows.map(([name, url]) => element('div', {}, element('dt', {}, name), element('dd', {}, element('code', {}, url)))))
}

function showPermissions () {
  byId('permissions').append(...config.permissions.map((name) => element('label', {},
    element('input', { type: 'checkbox', value: name, checked: name === 'read:messages' }), ' ', element('code', {}, name))))
}

function showEndpoints () {
  byId('endpoints').append(...ENDPOINTS.map(([path, guard]) => element('li', {},
    element('button', { type: 'button', 'data-path': path, click: () => show({ title: `GET ${path}`, story: `Needs: ${guard}.` }, (log) => callEndpoint(log, path)) },
      element('code', {}, `GET ${path}`), element('span', { className: 'hint' }, guard)))))
}

function showAttacks () {
  byId('attacks').append(...ATTACKS.map((attack) => element('li', {},
    element('button', { type: 'button', 'data-attack': attack.id, click: () => show(attack, (log) => attack.run(world(), log)) },
      attack.title, element('span', { className: 'hint' }, attack.story)))))
}

/** What an attack works with: the token as stolen, and the good client for comparison. */
const world = () => ({
  client,
  keys,
  dpop,
  token: session.token,
  target: `${config.api}/api/private`,
  elsewhere: `${config.api}/api/profile`
})

async function showSession (next) {
  session = next
  keys = session === undefined ? undefined : await keyPair()
  dpop = session === undefined ? undefined : oauth.DPoP(client, keys)
  const isIn = session !== undefined
  byId('login-state').replaceChildren(...isIn
    ? ['Logged in. The token is bound to the key ', element('code', {}, session.thumbprint), '. This browser keeps the key and cannot give it away.']
    : ['Nobody is logged in. The key is made in this browser. Nobody can read its private half, not even this page.'])
  byId('login').textContent = isIn ? 'Log in again' : 'Log in'
  byId('logout').hidden = !isIn
  byId('token-details').hidden = !isIn
  byId('token').replaceChildren(...isIn ? [jwtView(session.token, ['cnf'])] : [])
  byId('attack-note').textContent = isIn
    ? 'Each attack goes to GET /api/private and differs from a good request in one thing.'
    : 'Log in first: each attack starts with a stolen token.'
  for (const button of byId('attacks').querySelectorAll('button')) button.disabled = !isIn
}

async function callEndpoint (log, path) {
  const url = config.api + path
  if (session === undefined || path === '/api/public') return send(log, url, {})
  return call(log, url, session.token, dpop)
}

/** Runs one thing and shows it; the buttons wait meanwhile, so that results do not overtake each other. */
async function show (what, run) {
  document.body.setAttribute('aria-busy', 'true')
  const log = []
  try {
    await run(log)
    const explanation = log.length === 0 ? undefined : await explain(last(log), log.slice(0, -1))
    byId('result-body').replaceChildren(...resultView(what, log, explanation))
    turnToResult()
    announce(`${what.title}. ${byId('verdict').textContent}`)
  } catch (error) {
    fail(`${what.title}: this page could not continue.`, error)
  } finally {
    document.body.removeAttribute('aria-busy')
  }
}

/** Beside the buttons the result is in sight, and the focus stays; below them the reader is taken there, and back. */
function turnToResult () {
  const result = byId('result')
  result.scrollTop = 0
  if (matchMedia('(min-width: 62rem)').matches) return
  const pressed = document.activeElement
  byId('back').onclick = () => pressed.focus()
  result.focus({ preventScroll: true })
  result.scrollIntoView({ block: 'start' })
}

/** The dev server tells why; without its word the page still shows all that it sent and got. */
async function explain (exchange, before) {
  try {
    const response = await fetch('/explain', { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ exchange, before }) })
    return response.ok ? await response.json() : undefined
  } catch {
    return undefined
  }
}

function fail (text, error) {
  byId('result-body').replaceChildren(
    element('p', { className: 'verdict bad', id: 'verdict' }, element('strong', {}, text), ' ', error.message ?? String(error)))
  announce(`${text} ${error.message ?? ''}`)
}

function announce (text) {
  byId('announcer').textContent = text
}
