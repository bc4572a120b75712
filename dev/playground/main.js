/* global addEventListener */
import { chosen, showChoices, showEnds } from './choices.js'
import { byId } from './dom.js'
import { finishLogin, lastChoice } from './login.js'
import { refresh, render, whenChanged } from './refresh.js'
import { announce, clearResult, closeResult, fail } from './result.js'
import { config, faultOfParties, RETRY_MS } from './running.js'
import { end, expiresIn, logIn, use } from './session.js'
import { showState } from './state.js'
import { closeStream } from './watch.js'

async function begin () {
  for (;;) {
    await refresh()
    if (config !== undefined) break
    await new Promise(resolve => setTimeout(resolve, RETRY_MS))
  }
  showChoices(await lastChoice())
  if (config.canEnd) showEnds()
  byId('login-form').addEventListener('submit', event => {
    event.preventDefault()
    logIn(chosen('user')[0], chosen('permission'))
  })
  byId('logout').addEventListener('click', async () => {
    await end('')
    render()
    closeStream()
    // It shows the token that is deleted.
    clearResult()
    byId('login').focus()
    announce('The token and the key are deleted.')
  })
  byId('enlarge').addEventListener('click', ({ target }) => {
    const isLarge = byId('result').classList.toggle('large')
    target.setAttribute('aria-expanded', isLarge)
    target.textContent = isLarge ? 'Smaller' : 'Larger'
  })
  byId('close').addEventListener('click', closeResult)
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
    if (faultOfParties() !== undefined || expiresIn() <= 0) refresh()
  }, RETRY_MS)
}

whenChanged(showState)
await begin()
