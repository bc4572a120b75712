/** A value that belongs to an object of others. Only who holds the note can read or write it. */
export interface PrivateNote<Value> {
  /** Undefined if nothing has been noted for this object. */
  get (owner: object): Value | undefined
  set (owner: object, value: Value): void
}

/** Its constructor returns the object that it is given, so a class that extends it adds its private field to that object. */
class Owner {
  constructor (owner: object) {
    return owner as Owner
  }
}

/**
 * Makes a note of its own: no other note, and no code without it, sees its values. A WeakMap would do the same, but it costs about
 * ten times as much for each request.
 */
export function createPrivateNote<Value> (): PrivateNote<Value> {
  return class Note extends Owner {
    #value: Value | undefined

    static get (owner: object): Value | undefined {
      return #value in owner ? owner.#value : undefined
    }

    static set (owner: object, value: Value): void {
      const note = #value in owner ? owner : new Note(owner)
      note.#value = value
    }
  }
}
