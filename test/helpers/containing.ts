const escaped = (text: string) => text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')

/** A pattern for `t.match` and `t.notMatch`: text that holds this part, to the letter. */
export function containing (part: string): RegExp {
  return new RegExp(escaped(part))
}

/** The same for this text and no more, beside patterns in one object. */
export function exactly (text: string): RegExp {
  return new RegExp(`^${escaped(text)}$`)
}
