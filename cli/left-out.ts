import type { Answer } from './explain/answer.ts'
import { decodeJsonObject } from '../lib/guard/jose/signed-jwt.ts'
import type { CallOptions } from './call-options.ts'
import type { Exchange } from './exchange.ts'
import type { Paint } from './show.ts'

/** Where providers write permissions. Which of them the service reads is its setting. */
const CLAIMS = ['scope', 'scp', 'permissions', 'roles']

/**
 * The permissions that the call asked for and that its token does not have. Empty if the token was not asked for by the
 * call, or if nobody but its issuer can read it.
 */
export function leftOutLines (
  { requestHeaders }: Exchange,
  { scopes: needed = [] }: Answer,
  { token, scope = '', login }: CallOptions,
  paint: Paint
): string[] {
  const claims = decodeJsonObject(requestHeaders['Authorization']?.split('.')[1] ?? '')
  if (token !== undefined || claims === undefined) return []
  const granted = CLAIMS.flatMap(name => claims[name] ?? []).flatMap(value => String(value).split(' '))
  const left = scope.split(' ').filter(name => name !== '' && !granted.includes(name))
  if (left.length === 0) return []
  const grant = login === undefined
    ? 'Have it grant that to this client.'
    : `Have it grant that to ${login.user}, or log another user in with --user.`
  return [
    `${paint('cyan', 'Left out')}        The call asked for ${left.join(' and ')}, and the provider left it out. ` +
      (left.some(name => needed.includes(name)) ? grant : `The route needs ${needed.join(' and ')}.`)
  ]
}
