/* global addEventListener, location */
import * as oauth from '/vendor/oauth4webapi.js'
import { ATTACKS } from './attacks.js'
import { byId, element } from './dom.js'
import { targetsOf } from './endpoints.js'
import { call, last, send } from './exchange.js'
import { decodeJwt } from './jwt.js'
import { endSession, finishLogin, forget, keyPair, logOut, logOutEverywhere, startLogin } from './login.js'
import { look } from './parties.js'
import { openStream } from './stream.js'
import { judge, scopesAskedFor } from './verdict.js'
import { jwtView, resultView, verdictView } from './view.js'

const RETRY_MS = 3000

/** What runs, as `look` found it, and the last settings that there were. */
let parties
let config
let session
let keys
/** What the good client makes its proofs with: one handle, so that the nonce of one call serves the next. */
let dpop
/** The open stream, if any. */
let stream
/** What became of the last session, if the page ended it. */
let farewell = ''

async function begin () {
  while (config === undefined) {
    await refresh()
    if (config === undefined) await new Promise(resolve => setTimeout(resolve, RETRY_MS))
  }
  showChoices()
  byId('login-form').addEventListener('submit', event => {
    event.preventDefault()
    const valuesOf = name => [...document.querySelectorAll(`input[name="${name}"]:checked`)].map(({ value }) => value)
    logIn(valuesOf('user')[0], valuesOf('permission'))
  })
  byId('logout').addEventListener('click', async () => {
    await end('')
    render()
    byId('login').focus()
    announce('The token and the key are deleted.')
  })
  byId('enlarge').addEventListener('click', ({ target }) => {
    const isLarge = byId('result').classList.toggle('large')
    target.setAttribute('aria-expanded', isLarge)
    target.textContent = isLarge ? 'Smaller' : 'Larger'
  })
  try {
    await use(await finishLogin(config))
  } catch (error) {
    fail('The login failed', error)
  }
  await refresh()
  byId('main').hidden = false
  document.body.dataset.ready = 'true'
  addEventListener('focus', refresh)
  setInterval(() => {
    if (faultOf(parties) !== undefined || expiresIn() <= 0) refresh()
  }, RETRY_MS)
}

const logIn = (...choice) => startLogin(config, ...choice).catch(error => fail('The login did not start', error))

/** The same user again, in the way that a route asks for. */
const logInAsAsked = asked => logIn(decodeJwt(session.token).claims.sub, session.asked ?? [], asked)

/**
 * After a 403 for want of scopes: a login with them, as the same user if that one may have them. Undefined if none can.
 */
function widerLogin ({ received }) {
  const scopes = scopesAskedFor(received)
  if (scopes === undefined || session === undefined) return undefined
  const { sub } = decodeJwt(session.token).claims
  const able = config.users.filter(({ permissions }) => scopes.every(scope => permissions.includes(scope)))
  const user = able.find(({ id }) => id === sub) ?? able[0]
  return user &&
    {
      label: `Log in as ${user.name} with ${scopes.join(', ')}`,
      run: () => logIn(user.id, [...new Set([...session.asked ?? [], ...scopes])])
    }
}

/** Looks what runs, drops a token that no provider here has issued, and shows all of it. */
async function refresh () {
  parties = await look()
  if (parties.config !== undefined) {
    const endpoints = parties.endpoints ?? config?.samples.endpoints ?? parties.config.samples.endpoints
    config = {
      ...parties.config,
      samples: {
        ...parties.config.samples,
        endpoints,
        ...config?.isGate === false || parties.endpoints ? targetsOf(endpoints, parties.config.samples) : {}
      }
    }
  }
  if (session !== undefined && parties.keyIds !== undefined && !isOfThisProvider(session.token)) {
    await end('The token came from a provider that no longer runs, so this page deleted it. Log in again.')
    announce(farewell)
  }
  render()
}

function isOfThisProvider (token) {
  const { header, claims } = decodeJwt(token) ?? {}
  return claims?.iss === config.issuer && parties.keyIds.includes(header.kid)
}

async function end (why) {
  await forget()
  await use(undefined)
  farewell = why
}

async function use (next) {
  session = next
  keys = session && await keyPair()
  byId('choose').open = session === undefined
  dpop = session && oauth.DPoP({ client_id: config.clientId }, keys)
  farewell = ''
}

const expiresIn = () => session === undefined ? Infinity : decodeJwt(session.token).claims.exp - Date.now() / 1000

/** What is wrong with what runs, in sentences; undefined if all is well. */
function faultOf ({ config: answered, isApiUp, keyIds }) {
  const faults = []
  if (answered === undefined) faults.push(`The server of this page at ${location.origin} does not answer.`)
  else {
    if (!isApiUp) {
      faults.push(
        `The API at ${config.api} does not answer, or does not let this page read its answers (CORS_ORIGINS).`
      )
    }
    if (keyIds === undefined) faults.push(`The identity provider at ${config.issuer} does not answer.`)
  }
  return faults.length === 0
    ? undefined
    : `${faults.join(' ')} Look at the terminal in which npm run dev runs. This page tries again every ` +
      `${RETRY_MS / 1000} seconds.`
}

function showChoices () {
  const rows = [['API', config.api], ['Identity provider', config.issuer], ['This page', location.origin]]
  byId('addresses').append(
    ...rows.map(([name, url]) =>
      element('div', {}, element('dt', {}, name), element('dd', {}, element('code', {}, url)))
    )
  )
  byId('reference').href = `${config.api}/docs`
  byId('reference').hidden = false
  byId('users').append(
    ...config.users.map(({ id, name, permissions }, index) =>
      element(
        'label',
        { className: 'card' },
        element('input', { type: 'radio', name: 'user', value: id, checked: index === 0 }),
        element(
          'span',
          {},
          name,
          element(
            'span',
            { className: 'hint' },
            permissions.length === 0
              ? 'no permissions'
              : permissions.length === config.permissions.length
                ? 'all permissions'
                : permissions.join(', ')
          )
        )
      )
    )
  )
  byId('permissions').append(
    ...config.permissions.map(name =>
      element(
        'label',
        {},
        element('input', { type: 'checkbox', name: 'permission', value: name, checked: name === 'read:messages' }),
        ' ',
        element('code', {}, name)
      )
    )
  )
  byId('attacks').append(
    ...ATTACKS.map(attack =>
      choice(
        'attack-note',
        { 'data-attack': attack.id },
        attack.title,
        attack.story,
        () => show(attack, log => attack.run(world(), log))
      )
    )
  )
  if (config.canEnd) showEnds()
}

/** One button for each endpoint. They are made anew when the API has others. */
function showEndpoints () {
  const list = byId('endpoints')
  const now = JSON.stringify(config.samples.endpoints)
  if (list.dataset.shown === now) return
  list.dataset.shown = now
  list.replaceChildren(
    ...config.samples.endpoints.map(([path, guard]) =>
      choice(
        'call-note',
        { 'data-path': path },
        element('code', {}, `GET ${path}`),
        guard,
        () => show({ title: `GET ${path}`, story: `Needs: ${guard}.` }, log => callEndpoint(log, path, guard))
      )
    )
  )
}

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
      await logOutEverywhere(decodeJwt(session.token).claims.sub)
    }
  }
]

const STREAM_END_MS = 3000

function showEnds () {
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
        show(what, async log => {
          await what.run()
          session = await endSession(session)
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

const choice = (describedBy, data, title, hint, click) =>
  element(
    'li',
    {},
    element(
      'button',
      { type: 'button', 'aria-describedby': describedBy, ...data, click },
      element('span', { className: 'title' }, title),
      element('span', { className: 'hint' }, hint)
    )
  )

/** What an attack works with: the token as stolen, and the good client for comparison. */
const world = () => ({
  client: { client_id: config.clientId },
  keys,
  dpop,
  token: session.token,
  target: config.api + config.samples.anyToken,
  elsewhere: config.api + config.samples.elsewhere
})

/** Shows what runs, who is logged in, and what can be done now. */
function render () {
  const fault = faultOf(parties)
  const state = byId('state')
  if (state.textContent !== (fault ?? '')) {
    state.textContent = fault ?? ''
    if (document.body.dataset.ready === 'true') announce(fault ?? 'The API and the identity provider are back.')
  }
  state.className = 'state'
  state.hidden = fault === undefined
  if (config === undefined) return
  showEndpoints()
  const isIn = session !== undefined
  byId('login-state').replaceChildren(
    ...isIn
      ? sessionView()
      : [
          element(
            'p',
            { className: farewell && 'warning' },
            farewell ||
            ('Nobody is logged in. The key is generated in this browser. Its private half cannot be read, not ' +
              'even by this page.')
          )
        ]
  )
  byId('login').textContent = isIn ? 'Log in again' : 'Log in'
  byId('login').disabled = parties.keyIds === undefined
  byId('logout').hidden = !isIn
  byId('token-details').hidden = !isIn
  byId('token').replaceChildren(isIn ? jwtView(session.token, ['cnf']) : '')
  const noCall = parties.isApiUp ? undefined : 'The API does not answer, so there is nothing to call.'
  wait(
    'ends',
    'end-note',
    noCall ?? (isIn ? undefined : 'Log in first.'),
    'Open a stream, then log out: the stream ends, and the next call is refused.'
  )
  wait(
    'endpoints',
    'call-note',
    noCall,
    'Each call sends the token and a fresh proof, signed with the key of this browser.'
  )
  wait(
    'attacks',
    'attack-note',
    noCall ?? whyNoAttack(),
    `Each attack goes to GET ${config.samples.anyToken} and differs from a good request in one thing.`
  )
}

function whyNoAttack () {
  if (config.mode === 'DISABLED') {
    return 'DPoP is switched off in this service (IDP_DPOP_MODE=DISABLED), so it accepts a stolen token.'
  }
  if (session === undefined) return 'Log in first: each attack starts with a stolen token.'
  if (expiresIn() <= 0) return 'The token has expired, so stealing it is useless. Log in again.'
}

function wait (list, note, why, otherwise) {
  byId(note).textContent = why ?? otherwise
  byId(note).classList.toggle('warning', why !== undefined)
  for (const button of byId(list).querySelectorAll('button')) button.disabled = why !== undefined
}

function sessionView () {
  const { sub, scope = '', exp } = decodeJwt(session.token).claims
  const { name = sub } = config.users.find(({ id }) => id === sub) ?? {}
  const scopes = scope.split(' ').filter(Boolean)
  const denied = (session.asked ?? []).filter(permission => !scopes.includes(permission))
  const until = new Date(exp * 1000).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'short' })
  const list = names => names.flatMap((one, index) => [index === 0 ? '' : ', ', element('code', {}, one)])
  return [
    element(
      'p',
      { className: 'who' },
      element(
        'strong',
        {},
        session.ended ? `${name} is logged out.` : expiresIn() > 0 ? `Logged in as ${name}` : `${name} was logged in`
      ),
      session.ended ? ' This page keeps the token, so that you can see it refused.' : ` until ${until}.`
    ),
    element(
      'p',
      {},
      'Permissions: ',
      scopes.length === 0 ? 'none' : list(scopes),
      '.',
      denied.length > 0 && [' ', name, ' does not have ', list(denied), ', so the token does not either.']
    ),
    element(
      'p',
      { className: 'quiet' },
      'The token is bound to the key ',
      element('code', { id: 'thumbprint' }, session.thumbprint),
      '. This browser keeps the key, and cannot export it.'
    )
  ]
}

async function callEndpoint (log, path, guard) {
  const url = config.api + path
  if (session === undefined || guard === 'open to everyone') return send(log, url, {})
  if (config.mode === 'DISABLED') return send(log, url, { authorization: `Bearer ${session.token}` })
  return call(log, url, session.token, dpop)
}

/** Runs one thing and shows it. Meanwhile the buttons do nothing, so that results do not overtake each other. */
async function show (what, run) {
  if (document.body.getAttribute('aria-busy') === 'true') return
  document.body.setAttribute('aria-busy', 'true')
  for (const button of document.querySelectorAll('.buttons button')) {
    button.toggleAttribute('data-shown', button === document.activeElement)
  }
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

const whyNot = ({ reasons }) => parties.isApiUp ? reasons && whyNoAttack() : faultOf(parties)

function display (nodes) {
  byId('result').classList.remove('empty')
  byId('result-body').replaceChildren(...nodes)
  byId('result').scrollTop = 0
  // On a narrow screen the result has grown, and must not cover the button.
  document.activeElement.scrollIntoView({ block: 'nearest' })
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

function showMessage ({ title, ...verdict }) {
  display([title && element('h3', {}, title), verdictView(verdict)].filter(Boolean))
  announce(`${title ? `${title}: ` : ''}${verdict.word}. ${verdict.says}`)
}

const fail = (word, error) =>
  showMessage({ tone: 'bad', word, says: `${error.message ?? error}. Look at the terminal in which npm run dev runs.` })

function announce (text) {
  byId('announcer').textContent = text
}

await begin()
