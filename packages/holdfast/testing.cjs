// See index.cjs.
const door = require('./dist/testing.cjs')

exports.createTestIssuer = door.createTestIssuer
exports.createTestTransmitter = door.createTestTransmitter
