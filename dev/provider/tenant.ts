import { parseArgs } from 'node:util'
import { readOwnClient } from './own-client.ts'
import { startProvider } from './provider.ts'

/**
 * Starts only the local identity provider, for services that something else starts, such as deploy/compose.yaml. Its
 * issuer is on localhost, so services that verify its tokens must reach it there.
 */
const text = { type: 'string' } as const
const { values } = parseArgs({ options: { port: text, address: text, audience: text, url: text } })
const { port = '9000', address, audience = 'https://holdfast.example/api', url = 'http://localhost:8000' } = values
const provider = await startProvider({ port: Number(port), address, audience, ownClient: readOwnClient(process.env) })
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    provider.close().then(() => process.exit(0))
  })
}
const call = `--url ${url} --issuer ${provider.issuer} --audience ${audience} --client-id ${provider.clientId}`
process.stdout.write([
  `The local tenant is at ${provider.issuer}`,
  'To call the API, run this in a clone:',
  `CALL_CLIENT_SECRET=${provider.clientSecret} npm run call -- ${call} --dpop GET /api/private`,
  ''
].join('\n'))
