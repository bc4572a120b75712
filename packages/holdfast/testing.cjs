// See index.cjs.
const door = require('./dist/packages/holdfast/testing.js')

exports.createTestIssuer = door.createTestIssuer
exports.createTestTransmitter = door.createTestTransmitter
