/**
 * What an object, or one that it inherits from, keeps under a symbol of this description. Fastify and pino have no
 * public way to ask for some of it. It is undefined if they keep it elsewhere.
 */
export function hiddenMember (object: object, description: string): { key: symbol, value: unknown } | undefined {
  for (let owner: object | null = object; owner; owner = Object.getPrototypeOf(owner) as object | null) {
    const key = Object.getOwnPropertySymbols(owner).find(symbol => symbol.description === description)
    if (key) return { key, value: (owner as Record<symbol, unknown>)[key] }
  }
  return undefined
}
