const string = { type: 'string' } as const
const strings = { type: 'array', items: string } as const
const nullableString = { type: ['string', 'null'] } as const

const object = <const P extends Record<string, object>>(properties: P) =>
  ({
    type: 'object',
    required: Object.keys(properties),
    properties
  }) as const

/** The bodies of the endpoints, as JSON schemas. The schemas serialize the answers and describe them. */
export const messageSchema = object({ message: string })
export const subjectSchema = object({ message: string, user_id: string })
export const principalSchema = object({ message: string, user: string, scopes: strings })
export const profileSchema = object({ user_id: string, email: nullableString, permissions: strings, custom_claim: {} })
export const claimsSchema = object({
  userId: string,
  email: nullableString,
  scope: nullableString,
  issuer: string,
  audience: { anyOf: [string, strings, { type: 'null' }] }
})

/** The claims of the caller in the examples of answers. */
export const EXAMPLE_CLIENT = {
  sub: 'user-1',
  scope: 'openid read:messages',
  email: 'user-1@example.com',
  permissions: ['read:messages']
} as const

/** A schema with an example for the reference. */
export function withExample<Schema extends object> (
  schema: Schema,
  example: unknown
): Schema & { examples: readonly unknown[] } {
  return { ...schema, examples: [example] }
}
