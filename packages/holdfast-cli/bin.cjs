#!/usr/bin/env node
'use strict'
require('./cli/check-node.cjs')
import('./dist/packages/holdfast-cli/holdfast.js')
