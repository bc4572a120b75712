import { types } from 'node:util'

/**
 * Whether an object is one that was written in braces: own, enumerable values under names. False for a list, an
 * instance of a class, a proxy, and for an object that inherits, hides or computes a member, or has a symbol for a
 * name.
 */
export function isPlainObject (value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null || types.isProxy(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return false
  return Reflect.ownKeys(value).every(key => typeof key === 'string' && isVisible(value, key))
}

/**
 * Whether a list is one that was written in brackets: no gaps, no members beside its entries, no proxy, and no class of
 * its own.
 */
export function isPlainList (value: unknown): value is readonly unknown[] {
  if (types.isProxy(value) || !Array.isArray(value) || Object.getPrototypeOf(value) !== Array.prototype) return false
  const [...keys] = Reflect.ownKeys(value)
  // The length is a key too: the last one, if there are only entries.
  return keys.pop() === 'length' && keys.length === value.length &&
    keys.every((key, index) => key === String(index) && isVisible(value, key))
}

function isVisible (owner: object, key: string): boolean {
  const { enumerable, get, set } = Object.getOwnPropertyDescriptor(owner, key)!
  return enumerable === true && get === undefined && set === undefined
}
