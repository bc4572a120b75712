import { createRequire } from 'node:module'
import { serve } from './node.mjs'

// The script that starts it has installed Express in this folder.
const express = createRequire(`${process.env.PACKAGES}/`)('express')
const app = express().disable('x-powered-by')
app.use((request, response) => serve(request, response))
app.listen(Number(process.env.PORT), '127.0.0.1')
