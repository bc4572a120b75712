/* global location */
// What a visitor can choose: a user, permissions, an endpoint, an attack, and what ends the session.
import { attempt, callEndpoint } from './attempt.js'
import { ATTACKS } from './attacks.js'
import { byId, element } from './dom.js'
import { logOut, logOutEverywhere } from './login.js'
import { render } from './refresh.js'
import { config } from './running.js'
import { claimsOfToken, dpop, keys, markEnded, session } from './session.js'
import { storyOfStream, streamEnd, watchStream } from './watch.js'

/** A button in a list. */
const choice = (describedBy, data, title, hint, click) =>
  element(
    'li',
    element(
      'button',
      { type: 'button', 'aria-describedby': describedBy, ...data, click },
      element('span', { className: 'title' }, title),
      element('span', { className: 'hint' }, hint)
    )
  )

/**
 * What is the same for as long as the page is open. The form has what the last login asked for: "Log in again" is for
 * the same user.
 */
export function showChoices ({ user = config.users[0].id, permissions = ['read:messages'] } = {}) {
  showAddresses()
  byId('users').append(...config.users.map(one => userCard(one, one.id === user)))
  byId('permissions').append(
    ...config.permissions.map(name =>
      element(
        'label',
        element('input', { type: 'checkbox', name: 'permission', value: name, checked: permissions.includes(name) }),
        ' ',
        element('code', name)
      )
    )
  )
  byId('endpoints').append(
    ...config.samples.endpoints.map(([path, guard]) =>
      choice(
        'call-note',
        { 'data-path': path },
        element('code', `GET ${path}`),
        guard,
        () =>
          attempt({ title: `GET ${path}`, story: `Needs: ${guard}.` }, log => callEndpoint(log, path, guard))
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
        () => attempt(attack, log => attack.run(world(), log))
      )
    )
  )
}

function showAddresses () {
  const rows = [['API', config.api], ['Identity provider', config.issuer], ['This page', location.origin]]
  byId('addresses').append(
    ...rows.map(([name, url]) =>
      element('div', element('dt', name), element('dd', element('code', url)))
    )
  )
  byId('reference').href = `${config.api}/docs`
  byId('reference').hidden = false
}

function userCard ({ id, name, permissions }, isChosen) {
  return element(
    'label',
    { className: 'card' },
    element('input', { type: 'radio', name: 'user', value: id, checked: isChosen }),
    element(
      'span',
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
}

/** The values of what is ticked. */
export const chosen = name =>
  [...document.querySelectorAll(`input[name="${name}"]:checked`)].map(({ value }) => value)

/** What an attack works with: the token as stolen, and the good client for comparison. */
const world = () => ({
  client: { client_id: config.clientId },
  keys,
  dpop,
  token: session.token,
  target: config.api + config.samples.anyToken,
  elsewhere: config.api + config.samples.elsewhere
})

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

/** The buttons of what ends the session, and of a stream of events that ends with it. */
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
