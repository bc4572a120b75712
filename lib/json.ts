export type JsonObject = Readonly<Record<string, unknown>>

/** Whether a value from JSON is an object: not null, and no list. */
export function isJsonObject (value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
