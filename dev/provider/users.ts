export const PERMISSIONS = ['read:messages', 'write:messages', 'read:users', 'write:users', 'admin'] as const

interface User {
  /** `sub` of the tokens, and what `login_hint` names. */
  readonly id: string
  readonly name: string
  /** A token has at most these, whatever the client requests. */
  readonly permissions: readonly string[]
}

export const USERS: readonly User[] = [
  { id: 'ada', name: 'Ada', permissions: PERMISSIONS },
  { id: 'grace', name: 'Grace', permissions: ['read:messages', 'write:messages', 'read:users'] },
  { id: 'linus', name: 'Linus', permissions: [] }
]

export const findUser = (id: unknown) => USERS.find(user => user.id === id)

export const emailOf = (subject: string) => `${subject}@holdfast.example`
