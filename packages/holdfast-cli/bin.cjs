#!/usr/bin/env node
'use strict'
require('./check-node.cjs')
import('./dist/packages/holdfast-cli/holdfast.js')
