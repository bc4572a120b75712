// What index.cjs exports, for a compiler that sees CommonJS: the declarations of the one module.
import type * as door from './dist/packages/holdfast/index.js' with { 'resolution-mode': 'import' }

declare const holdfast: typeof door.default
export default holdfast
export type * from './dist/packages/holdfast/index.js' with { 'resolution-mode': 'import' }
export declare const REFUSALS: typeof door.REFUSALS
export declare const Refusal: typeof door.Refusal
export type Refusal = door.Refusal
export declare const SettingsError: typeof door.SettingsError
export type SettingsError = door.SettingsError
