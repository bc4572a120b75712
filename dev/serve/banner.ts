import { exchange, exchangeWithNonce } from '../../cli/exchange.ts'
import type { Tenant } from '../../cli/tenants.ts'
import { createProof, createProofKey, requestToken } from '../../cli/token.ts'
import type { Paint } from '../../cli/show.ts'
import type { OwnClient } from '../provider/own-client.ts'
import { USERS } from '../provider/users.ts'
import { curlLine, headerWords } from './curl-line.ts'
import { OWN_CALL } from './own-calls.ts'
import { SAMPLES } from './samples.ts'

/**
 * The addresses, and lines to paste. Each line has just been tried, so all of them work. `to` is what `npm run call`
 * needs to reach this tenant and no other.
 */
export async function banner (
  tenant: Tenant,
  playground: string | undefined,
  paint: Paint,
  { to, ownClient, transmitter }: { to: string, ownClient: OwnClient | undefined, transmitter: string }
): Promise<string> {
  const docs = `${tenant.url}/docs`
  const hasDocs = await statusOf(docs) < 400
  const rows: Array<[string, string | undefined]> = [
    ['API', tenant.url],
    ['Playground', playground],
    ['Reference', hasDocs ? docs : undefined],
    ['Provider', `${tenant.issuer}  (audience ${tenant.audience})`],
    ['Log-outs', `${transmitter}  (tells the API which sessions have ended)`],
    ['Users', USERS.map(({ id }) => id).join(', ')],
    ['Your client', ownClient && describeClient(ownClient)]
  ]
  const addresses = rows.flatMap(([name, text]) =>
    text === undefined ? [] : [`  ${name.padEnd(12)}${paint('cyan', text)}`]
  )
  // The lines with tokens fill the screen, so what is read first comes last.
  return [
    '',
    ...await bearerLines(tenant, paint),
    '',
    ...await dpopLines(tenant, paint, to),
    `${paint('green', 'Holdfast is running.')} It reloads when you change the code; Ctrl-C stops everything.`,
    '',
    ...addresses,
    ''
  ].join('\n')
}

/** The secret is that of a local provider, set by the reader of this output. */
function describeClient ({ clientId, clientSecret, redirectUris }: OwnClient): string {
  const facts = [
    clientSecret === undefined ? 'public, with PKCE' : `secret ${clientSecret}`,
    ...redirectUris.length === 0 ? [] : [`back to ${redirectUris.join(', ')}`]
  ]
  return `${clientId}  (${facts.join('; ')})`
}

async function dpopLines (tenant: Tenant, paint: Paint, to: string): Promise<string[]> {
  const { anyToken, scoped } = SAMPLES
  const url = tenant.url + anyToken
  const key = await createProofKey()
  const token = await tokenFor(tenant, undefined, key)
  const headersWith = async (nonce?: string): Promise<Record<string, string>> => ({
    Authorization: `DPoP ${token}`,
    DPoP: await createProof(key, { method: 'GET', url, token, nonce })
  })
  const { answer, nonce } = await exchangeWithNonce(async nonce =>
    exchange({ method: 'GET', url, headers: { ...await headersWith(nonce), ...OWN_CALL } }, {})
  )
  if (answer.status !== 200) return [paint('dim', '  DPoP is switched off.'), '']
  // The proof that was tried is spent: the line needs one of its own.
  return [
    paint('bold', 'With DPoP: a token that is useless without its key'),
    paint(
      'dim',
      '  By hand. A proof is valid for one request: if you paste this twice, the second request is refused as a replay.'
    ),
    `  ${curl(url, await headersWith(nonce))}`,
    paint('dim', '  By a tool, which makes the proof and explains a refusal:'),
    `  npm run call --${to} --dpop GET ${anyToken}`,
    `  npm run call --${to} --dpop GET ${scoped} --scope read:messages`,
    ''
  ]
}

async function bearerLines (tenant: Tenant, paint: Paint): Promise<string[]> {
  const { open, anyToken, scoped } = SAMPLES
  const lines = [
    paint('bold', 'With a Bearer token: anyone who has it can use it, for one day'),
    `  ${curl(tenant.url + open, {})}`
  ]
  for (const [path, scope] of [[anyToken, undefined], [scoped, 'read:messages']] as const) {
    const url = tenant.url + path
    const headers = { Authorization: `Bearer ${await tokenFor(tenant, scope)}` }
    if (await statusOf(url, headers) !== 200) {
      return [`  ${curl(tenant.url + open, {})}`, paint('dim', '  Bearer tokens are not accepted.')]
    }
    lines.push(`  ${curl(url, headers)}`)
  }
  return lines
}

async function statusOf (url: string, headers: Record<string, string> = {}): Promise<number> {
  const { status } = await exchange({ method: 'GET', url, headers: { ...headers, ...OWN_CALL } }, {})
  return status
}

async function tokenFor (
  tenant: Tenant,
  scope: string | undefined,
  key?: Awaited<ReturnType<typeof createProofKey>>
): Promise<string> {
  const { token } = await requestToken({ ...tenant, scope, key, body: 'json', parameters: [] }, {})
  if (token === undefined) throw new Error('the local identity provider gave no token')
  return token
}

function curl (url: string, headers: Record<string, string>): string {
  return curlLine('GET', url, ...headerWords(Object.entries(headers)))
}
