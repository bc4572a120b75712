import { Writable } from 'node:stream'
import Fastify from 'fastify'
import { check } from '../../cli/check.ts'
import { createProof, type ProofKey } from '../../cli/token.ts'
import { holdfast, readSettings, serverOptions } from '../../holdfast.ts'
import type { Variables } from '../../test/helpers/variables.ts'
import { AUDIENCE } from './realm.ts'
import { shownBy } from '../../test/helpers/shown.ts'

/** The service before an issuer. */
export interface Service {
  url: string
  /**
   * Calls a route with a token, and with a proof if there is a key. Returns the status, and the reason of a refusal.
   */
  call (path: string, token: string, key?: ProofKey | string): Promise<string>
  /** The proof of a call, to be sent more than once. */
  proof (path: string, token: string, key: ProofKey): Promise<string>
  close (): Promise<void>
}

/** The service, with routes of its own: `GET /private`, `/admin` for that scope, and `/role` for a role. */
export async function startService (issuer: string, values: Variables = {}): Promise<Service> {
  const settings = await readSettings({ IDP_ISSUER: issuer, IDP_AUDIENCE: AUDIENCE, ...values })
  const reasons: string[] = []
  const stream = new Writable({
    write (line, _encoding, done) {
      const { msg, reason } = JSON.parse(String(line)) as { msg?: string, reason?: string }
      if (msg === 'request refused') reasons.push(reason!)
      done()
    }
  })
  const app = Fastify({ ...serverOptions(settings), logger: { level: 'info', stream } })
  await app.register(holdfast, { settings })
  app.register(async app => {
    app.get('/private', { onRequest: app.authenticate() }, () => ({}))
    app.get('/admin', { onRequest: app.requireScope('admin') }, () => ({}))
    app.get('/role', { onRequest: app.require({ claims: { 'realm_access.roles': 'admin' } }) }, () => ({}))
  })
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  return {
    url,
    async call (path, token, key) {
      const before = reasons.length
      const proof = key === undefined
        ? undefined
        : typeof key === 'string'
          ? key
          : await createProof(key, { method: 'GET', url: url + path, token })
      const { status } = await fetch(url + path, {
        headers: {
          authorization: `${proof === undefined ? 'Bearer' : 'DPoP'} ${token}`,
          ...proof !== undefined && { dpop: proof }
        }
      })
      return status === 200 ? '200' : `${status} \`${reasons.slice(before).join(' ')}\``
    },
    proof: (path, token, key) => createProof(key, { method: 'GET', url: url + path, token }),
    close: () => app.close()
  }
}

/** What `npm run check` says: its result, and the lines that hold these words. */
export async function runCheck (issuer: string, values: NodeJS.ProcessEnv, words: string): Promise<string> {
  const env = { IDP_ISSUER: issuer, IDP_AUDIENCE: AUDIENCE, PUBLIC_URL: AUDIENCE, ...values }
  const { code, text } = await shownBy(out => check([], { env, out, readFile: () => undefined }))
  const line = text.split('\n').find(line => line.includes(words))
  const said = line?.replace(/^\s*[^\w]*\s*/, '').replaceAll(issuer, 'ISSUER').replaceAll('|', '\\|')
  return `code ${code}: ${said ?? 'nothing of the kind'}`
}
