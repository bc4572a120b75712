// See index.d.cts.
import type * as door from './dist/packages/holdfast/testing.js' with { 'resolution-mode': 'import' }

export type * from './dist/packages/holdfast/testing.js' with { 'resolution-mode': 'import' }
export declare const createTestIssuer: typeof door.createTestIssuer
export declare const createTestTransmitter: typeof door.createTestTransmitter
