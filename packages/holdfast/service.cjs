// See index.cjs.
const door = require('./dist/packages/holdfast/service.js')

Object.defineProperty(exports, '__esModule', { value: true })
exports.default = door.default
