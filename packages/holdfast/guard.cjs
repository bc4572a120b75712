// See index.cjs.
const door = require('./dist/guard.cjs')

Object.defineProperty(exports, '__esModule', { value: true })
exports.createGuard = door.createGuard
exports.SettingsError = door.SettingsError
