import { element } from './dom.js'

/** From when on a new login counts after a revocation, counted down while it is on the page. @param at Unix seconds */
export function newLoginView (at) {
  const rest = element('strong', {})
  const count = () => {
    const seconds = Math.ceil(at - Date.now() / 1000)
    rest.textContent = seconds > 0 ? `Wait ${seconds} s.` : 'Log in again now.'
    return seconds > 0
  }
  if (count()) {
    const timer = setInterval(() => {
      if (!count() || !rest.isConnected) clearInterval(timer)
    }, 1000)
  }
  const time = new Date(at * 1000).toLocaleTimeString('en-GB')
  return element('p', { className: 'lesson', id: 'new-login' }, `A new login counts from ${time} on. `, rest)
}

/** Whether a login at this moment would be refused. @param at Unix seconds, or undefined */
export const isTooEarly = at => at !== undefined && at > Date.now() / 1000
