'use strict'
// Runs before anything else is loaded, and on any Node: one that is too old would answer with a stack of somebody else's.
const oldest = require('./package.json').engines.node.replace('>=', '')
const [major, minor] = process.versions.node.split('.').map(Number)
const [oldestMajor, oldestMinor] = oldest.split('.').map(Number)

if (major < oldestMajor || (major === oldestMajor && minor < oldestMinor)) {
  console.error(`Holdfast needs Node ${oldest} or newer, and this is Node ${process.versions.node}.`)
  process.exit(1)
}
