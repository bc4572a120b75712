import { hiddenMember } from '../../lib/base/hidden-member.ts'

/** What is needed of a Fastify app. */
interface Decorated {
  hasRequestDecorator (name: string): boolean
}

const GETTER =
  'request.user is declared by the app as a getter, so the claims of the token cannot be put there. Give that ' +
  'decorator another name, or register holdfast in a scope without it.'

/**
 * Looks at what the app has made of `request.user` before the guard came.
 * @returns whether @fastify/passport has declared it, whose sessions write a user there after the guard
 * @throws Error if it cannot be written
 */
export function isUserOfPassport (app: Decorated): boolean {
  if (!app.hasRequestDecorator('user')) return false
  const declared = descriptorOf(app, 'user')
  if (declared?.get && !declared.set) throw new Error(GETTER)
  return app.hasRequestDecorator('passport')
}

/** How a member of the requests of a scope is declared, or undefined if Fastify keeps their class elsewhere. */
function descriptorOf (app: object, name: string): PropertyDescriptor | undefined {
  const requests = hiddenMember(app, 'fastify.Request')?.value as { readonly prototype: object } | undefined
  let holder = requests?.prototype as object | null | undefined
  while (holder && !Object.hasOwn(holder, name)) holder = Object.getPrototypeOf(holder) as object | null
  return holder ? Object.getOwnPropertyDescriptor(holder, name) : undefined
}
