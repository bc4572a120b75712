// See index.mjs.
import door from './dist/testing.cjs'

export const { createTestIssuer, createTestTransmitter } = door
