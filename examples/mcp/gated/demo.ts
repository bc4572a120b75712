import { startGatedSite } from './site.ts'

// The server, the gate before it and their provider, until a signal ends them. Shows what the gate says about each
// request.

const say = (text: string): void => {
  process.stdout.write(`${text}\n`)
}
const site = await startGatedSite({
  port: Number(process.env['PORT'] || 8000),
  serverPort: Number(process.env['SERVER_PORT'] || 3000),
  redirectUrl: process.env['REDIRECT_URL'] || 'http://localhost:8765/callback',
  onAnswer: answer => say(`POST /mcp ${answer}`)
})
say(`The gate is at ${site.url}, its provider at ${site.issuer}.`)
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(0))
