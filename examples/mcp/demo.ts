import { startSite } from './site.ts'

// The server and its provider, until a signal ends them.

const site = await startSite({
  port: Number(process.env['PORT'] || 8000),
  redirectUrl: process.env['REDIRECT_URL'] || 'http://localhost:8765/callback'
})
process.stdout.write(`The server is at ${site.url}, its provider at ${site.issuer}.\n`)
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(0))
