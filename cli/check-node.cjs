'use strict'
// Runs before anything else is loaded, and on any Node: one that is too old would answer with a stack trace of a
// dependency.
const oldest = require('../package.json').engines.node.replace('>=', '')
const [major, minor] = process.versions.node.split('.').map(Number)
const [oldestMajor, oldestMinor] = oldest.split('.').map(Number)

if (major < oldestMajor || (major === oldestMajor && minor < oldestMinor)) {
  console.error(`Holdfast needs Node ${oldest} or newer, and this is Node ${process.versions.node}.`)
  process.exit(1)
}

// Without its packages Node would answer with a stack as well. The first is for every command, the others for those of
// development.
const isInstalled = name => {
  try {
    return Boolean(require.resolve(name))
  } catch (error) {
    // Another code says that it is there, for `import` only.
    return error.code !== 'MODULE_NOT_FOUND'
  }
}
const ofDevelopment = { dev: ['oidc-provider'], pretest: ['tap'] }[process.env.npm_lifecycle_event] || []

if (!isInstalled('fastify')) {
  console.error('The packages are not installed: run npm ci.')
  process.exit(1)
}
if (!ofDevelopment.every(isInstalled)) {
  console.error('The packages for development are not installed: run npm ci --include=dev.')
  process.exit(1)
}
