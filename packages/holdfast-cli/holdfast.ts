import { createRequire } from 'node:module'

if (process.argv[2] === '--version') {
  process.stdout.write(`${(createRequire(import.meta.url)('../../../package.json') as { version: string }).version}\n`)
} else await import('../../cli/main.ts')
