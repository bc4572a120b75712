// What runs, who is logged in, and what can be done now.
import { whyNoAttack } from './attempt.js'
import { byId, element } from './dom.js'
import { jwtView } from './members.js'
import { announce } from './result.js'
import { config, faultOfParties, parties } from './running.js'
import { claimsOfToken, expiresIn, farewell, session } from './session.js'

/** Shows what runs, who is logged in, and what can be done now. */
export function showState () {
  const fault = faultOfParties()
  const state = byId('state')
  if (state.textContent !== (fault ?? '')) {
    state.textContent = fault ?? ''
    if (document.body.dataset.ready === 'true') announce(fault ?? 'The API and the identity provider are back.')
  }
  state.className = 'state'
  state.hidden = fault === undefined
  if (config === undefined) return
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

function wait (list, note, why, otherwise) {
  byId(note).textContent = why ?? otherwise
  byId(note).classList.toggle('warning', why !== undefined)
  for (const button of byId(list).querySelectorAll('button')) button.disabled = why !== undefined
}

function sessionView () {
  const { sub, scope = '', exp } = claimsOfToken()
  const { name = sub } = config.users.find(({ id }) => id === sub) ?? {}
  const scopes = scope.split(' ').filter(Boolean)
  const denied = (session.asked ?? []).filter(permission => !scopes.includes(permission))
  const until = new Date(exp * 1000).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'short' })
  const list = names => names.flatMap((one, index) => [index === 0 ? '' : ', ', element('code', one)])
  return [
    element(
      'p',
      { className: 'who' },
      element(
        'strong',
        session.ended ? `${name} is logged out.` : expiresIn() > 0 ? `Logged in as ${name}` : `${name} was logged in`
      ),
      session.ended ? ' This page keeps the token, so that you can see it refused.' : ` until ${until}.`
    ),
    element(
      'p',
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
