// For require(), and for compilers that see CommonJS. It is the same module: every promised Node can require it.
const door = require('./dist/packages/holdfast/index.js')

Object.defineProperty(exports, '__esModule', { value: true })
exports.default = door.default
exports.REFUSALS = door.REFUSALS
exports.Refusal = door.Refusal
exports.SettingsError = door.SettingsError
