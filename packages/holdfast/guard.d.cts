// See index.d.cts.
import type * as door from './dist/packages/holdfast/guard.js' with { 'resolution-mode': 'import' }

export type * from './dist/packages/holdfast/guard.js' with { 'resolution-mode': 'import' }
export declare const createGuard: typeof door.createGuard
export declare const SettingsError: typeof door.SettingsError
export type SettingsError = door.SettingsError
