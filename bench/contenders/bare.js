import Fastify from 'fastify'
import { serve } from './route.js'

// No guard at all: what the framework itself costs.
await serve(Fastify(), {}, () => 'bench|00000000')
