import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Fastify, { type FastifyError } from 'fastify'
import { parseJson } from '../../cli/input.ts'
import { root } from '../../cli/tenants.ts'
import { openProviderKeys } from '../../cli/provider-keys.ts'
import type { Settings } from '../../lib/settings/settings.ts'
import type { LocalProvider } from '../provider/provider.ts'
import type { LocalTransmitter } from '../provider/transmitter.ts'
import { PERMISSIONS, USERS } from '../provider/users.ts'
import { explainExchange } from './explanation.ts'
import type { Revocation } from '../../lib/revocation/view.ts'
import { OWN_CALL } from './own-calls.ts'
import { SAMPLES } from './samples.ts'

const TYPES: Readonly<Record<string, string>> = { html: 'text/html', css: 'text/css', js: 'text/javascript' }

export interface PlaygroundOptions {
  port: number
  /** Where the API listens. */
  api: string
  provider: LocalProvider
  /** Has the users logged out everywhere. Absent if nothing can be revoked. */
  transmitter?: LocalTransmitter
  /** The settings of the API, to explain its answers. */
  settings: Settings
}

/** Serves the page on its own origin, so that each of its calls is cross-origin, as in real life. */
export async function startPlayground (
  { port, api, provider, transmitter, settings }: PlaygroundOptions
): Promise<{ readonly url: string, close (): Promise<void> }> {
  const { issuer, audience, browserClientId: clientId } = provider
  const url = `http://localhost:${port}`
  const keys = openProviderKeys(settings)
  const headers = {
    'content-security-policy':
      `default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self' ${api} ` +
      `${issuer}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cache-control': 'no-store'
  }
  const server = Fastify({ forceCloseConnections: true })
  server.addHook('onRequest', async (request, reply) => {
    reply.headers(headers)
    const { host = '', origin = url } = request.headers
    // A page of another site could reach it by a name of its own, or send it a form.
    if (![`localhost:${port}`, `127.0.0.1:${port}`].includes(host)) return reply.code(421).send()
    if (request.method === 'POST' && origin !== url) return reply.code(403).send()
  })
  server.addHook('onClose', keys.close)
  // Any body is taken. The explanation says what it cannot read.
  server.removeAllContentTypeParsers()
  server.addContentTypeParser(
    '*',
    { parseAs: 'string' },
    (_request, body, done) => done(null, parseJson(body as string))
  )
  server.setErrorHandler<FastifyError>((error, _request, reply) => {
    const note = error.statusCode === 413 ? 'That is more than 1 MiB.' : error.message
    return reply.code(error.statusCode ?? 500).send({ checks: [], notes: [note] })
  })
  server.get('/config.json', async () => ({
    api,
    issuer,
    audience,
    clientId,
    redirectUri: `${url}/`,
    permissions: PERMISSIONS,
    users: USERS,
    samples: SAMPLES,
    mode: settings.idp.dpopMode,
    canEnd: transmitter !== undefined && settings.revocation !== undefined,
    asksForNonces: settings.dpop.nonce === 'required'
  }))
  server.post('/explain', request =>
    explainExchange(request.body, settings, keys, authorization => askAboutRevocation(api, authorization)))
  server.post('/log-out-everywhere', async (request, reply) => {
    const status = await transmitter!.pushEnd(`${api}/revocation/events`, {
      user: { format: 'iss_sub', iss: issuer, sub: (request.body as { sub: string }).sub }
    })
    return reply.send({ status })
  })
  server.get('/*', async ({ params }, reply) => {
    const file = fileFor((params as { '*': string })['*'])
    const content = file === undefined ? undefined : await readFile(file).catch(() => undefined)
    if (file === undefined || content === undefined) return reply.callNotFound()
    return reply.type(`${TYPES[file.slice(file.lastIndexOf('.') + 1)]}; charset=utf-8`).send(content)
  })
  await server.listen({ port, host: '127.0.0.1' })
  return { url, close: () => server.close() }
}

/** What has revoked the token of an Authorization line: null for nothing, undefined if the API does not say. */
async function askAboutRevocation (api: string, authorization: string): Promise<Revocation | null | undefined> {
  const headers = { authorization, ...OWN_CALL }
  const answer = await fetch(`${api}/dev/revocation`, { headers }).catch(() => undefined)
  return answer?.ok ? await answer.json() as Revocation | null : undefined
}

/** Only these few files are served. The library is the file in node_modules. */
function fileFor (path: string): string | undefined {
  if (path === 'vendor/oauth4webapi.js') return fileURLToPath(import.meta.resolve('oauth4webapi'))
  return /^(?:|[a-z]+\.(?:js|css))$/.test(path) ? join(root, 'dev', 'playground', path || 'index.html') : undefined
}
