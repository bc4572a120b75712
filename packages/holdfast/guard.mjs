// See index.mjs.
import door from './dist/guard.cjs'

export const { createGuard, SettingsError } = door
