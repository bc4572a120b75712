// For require(), and for compilers that see CommonJS.
const door = require('./dist/plugin.cjs')

Object.defineProperty(exports, '__esModule', { value: true })
exports.default = door.default
exports.REFUSALS = door.REFUSALS
exports.Refusal = door.Refusal
exports.SettingsError = door.SettingsError
