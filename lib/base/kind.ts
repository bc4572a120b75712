/**
 * The `instanceof` of a class whose objects carry a mark. An app may have two copies of this package in its tree, and
 * each copy has classes of its own; the mark is the same symbol in all of them.
 */
export function carries (mark: symbol): (value: unknown) => boolean {
  return value => typeof value === 'object' && value !== null && mark in value
}
