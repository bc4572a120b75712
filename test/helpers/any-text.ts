import fc from 'fast-check'

const character = fc.oneof(fc.integer({ min: 0, max: 0xD7FF }), fc.integer({ min: 0xE000, max: 0x10FFFF })).map(code =>
  String.fromCodePoint(code)
)

/**
 * Any text that Unicode has. fast-check's own `unit: 'binary'` makes a table of all code points first, which takes a
 * second; what it mixes in, the names of members that every object has, is here as well.
 */
export const anyText = fc.oneof(
  { weight: 9, arbitrary: fc.string({ unit: character }) },
  { weight: 1, arbitrary: fc.constantFrom(...Object.getOwnPropertyNames(Object.prototype), 'then', 'key', 'ref') }
)
