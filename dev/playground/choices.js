/* global location */
// What a visitor can choose: a user, permissions, an endpoint, an attack.
import { attempt, callEndpoint } from './attempt.js'
import { ATTACKS } from './attacks.js'
import { byId, element } from './dom.js'
import { config } from './running.js'
import { dpop, keys, session } from './session.js'

/** A button in a list. */
export const choice = (describedBy, data, title, hint, click) =>
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
        {},
        element('input', { type: 'checkbox', name: 'permission', value: name, checked: permissions.includes(name) }),
        ' ',
        element('code', {}, name)
      )
    )
  )
  byId('endpoints').append(
    ...config.samples.endpoints.map(([path, guard]) =>
      choice(
        'call-note',
        { 'data-path': path },
        element('code', {}, `GET ${path}`),
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
      element('div', {}, element('dt', {}, name), element('dd', {}, element('code', {}, url)))
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
