'use strict'
// Runs a program of the clone from its source, on every supported Node: node cli/run.cjs cli/main.ts call --help
require('./check-node.cjs')
const { resolve } = require('path')
const { pathToFileURL } = require('url')

// The program sees itself where Node would put it.
process.argv.splice(1, 2, resolve(process.argv[2]))
import('./strip-types.js').then(() => import(pathToFileURL(process.argv[1])))
