/** Its constructor returns the object that it is given, so a class that extends it adds its private field to that object. */
class Owner {
  constructor (owner: object) {
    return owner as Owner
  }
}

/**
 * Makes a note: a value that belongs to an object of others, and that only the holder of the note can read or write. A WeakMap would do
 * the same, but it costs about ten times as much for each request.
 */
export function createPrivateNote<Value> () {
  return class Note extends Owner {
    #value: Value | undefined

    /** Undefined if nothing has been noted for this object. */
    static get (owner: object): Value | undefined {
      return #value in owner ? owner.#value : undefined
    }

    static set (owner: object, value: Value): void {
      const note = #value in owner ? owner : new Note(owner)
      note.#value = value
    }
  }
}
