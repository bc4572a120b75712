const string = { type: 'string' } as const
const strings = { type: 'array', items: string } as const
const nullableString = { type: ['string', 'null'] } as const

const object = <const P extends Record<string, object>>(properties: P) => ({
  type: 'object', required: Object.keys(properties), properties
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
  audience: { anyOf: [string, strings] }
})

/** A claim as a string, or null if it is absent or has another type. */
export function stringOrNull (claim: unknown): string | null {
  return typeof claim === 'string' ? claim : null
}

/** A claim as a list of strings. The list is empty if the claim is absent or has another type. */
export function stringsOrEmpty (claim: unknown): readonly string[] {
  return Array.isArray(claim) && claim.every(entry => typeof entry === 'string') ? claim : []
}
