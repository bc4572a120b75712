import { createPublicKey, randomBytes } from 'node:crypto'
import t from 'tap'
import { createCertificateReader } from '../../lib/guard/certificate/client-certificate.ts'
import { createClientKeys } from '../../lib/guard/dpop/client-keys.ts'
import { verifyProof } from '../../lib/guard/dpop/proof.ts'
import { rulesOfIssuer } from '../../lib/assembly/create-issuers.ts'
import { arrivedRequest, createGuard } from '../../lib/guard/guard.ts'
import type { KeySource } from '../../lib/guard/provider/key-source.ts'
import { Refusal } from '../../lib/refusal.ts'
import { createMemoryStore } from '../../lib/guard/replay/memory-store.ts'
import { findSignerByCrypto, JWS_ALGS } from '../../lib/guard/jose/signature.ts'
import { collectSettings } from '../../lib/settings/sources.ts'
import { validateSettings } from '../../lib/settings/validation.ts'
import { createIssuerTable } from '../../lib/guard/token/issuer-table.ts'
import { checkByRules, readToken } from '../../lib/guard/token/jwt-checks.ts'
import { readScopes, createVerifiedTokens } from '../../lib/guard/token/verified-tokens.ts'
import { createJwtVerifier } from '../../lib/guard/token/jwt-verifier.ts'
import { createRequestUrlResolver } from '../../lib/guard/url/request-url.ts'
import { startApp } from '../helpers/app.ts'
import { callDpop } from '../helpers/call.ts'
import { parseCommand, readBlocks, readSection, readTable, textOf } from '../helpers/documents.ts'
import { createDpopClient, hashOf } from '../helpers/dpop-client.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { encodeJws } from '../helpers/jws.ts'
import { signingKeyOf } from '../helpers/signing-key.ts'
import { processSurroundings } from '../../server/surroundings.ts'

/** The provider's public key of the request in docs/guide/dpop.md. Its private half, and the client's, are gone. */
const PROVIDER_KEY = createPublicKey({
  format: 'der',
  type: 'spki',
  encoding: 'base64',
  key: 'MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA8Q7aCHvlVV6eEGnwJRkzm6B6A0LT3+QOVhGAzeQyOvlGY7cMelengM' +
    'PPL6cRV44xhzseYUoP6OPmi0xu21Dg/sPZPFbClmmJ06V6x1LPj8H/HWEG+aD45UAFb93nGke2LudRDkAwAVZkFVycXhBTuOtv' +
    'Qgbr2fZ5L0EG2V43us7upZGcNubkPVan3LuZEZZmqF1EysQ9sbodWrQ3if7G3GodWxxa08Lc2EQa8jbqevtGNhEwZRgAXQdeXo' +
    'vhkdWFJdWMk8UlHwXTvIi8lVZSpG4apZZ6sqkTNRo/9m4Kv/TshV0iQcB37saOsc87VzDv3QfTsryCFYk2aGAqpBuVmQIDAQAB'
})

const dpopBlocks = readBlocks('docs/guide/dpop.md')
const decode = (part: string): unknown => JSON.parse(Buffer.from(part, 'base64url').toString())

/** The request that docs/guide/dpop.md takes apart. */
function readRequest () {
  const text = dpopBlocks.find(({ language }) => language === 'http')!.text
  const [, method = '', target = ''] = /^(\w+) (\S+) HTTP/.exec(text) ?? []
  const valueOf = (name: string) => new RegExp(`^${name}: (.+)$`, 'm').exec(text)?.[1] ?? ''
  return { method, target, host: valueOf('Host'), authorization: valueOf('Authorization'), proof: valueOf('DPoP') }
}

const recorded = readRequest()
const token = recorded.authorization.replace('DPoP ', '')
const [proofHeader = '', proofClaims = '', proofSignature = ''] = recorded.proof.split('.')
const madeAt = (decode(proofClaims) as { iat: number }).iat

/** The service at the time of the example, with its defaults. */
function createService (publicUrl = 'https://api.example') {
  const clock = { now: madeAt + 2 }
  const key = signingKeyOf(PROVIDER_KEY, '2026-11')
  const keys = { candidates: () => [key], isTrusted: () => true } as unknown as KeySource
  const tokens = createJwtVerifier({
    clockToleranceSeconds: 5,
    issuers: createIssuerTable([{
      issuer: 'https://tenant.example/',
      keys,
      rules: {
        issuer: 'https://tenant.example/',
        audiences: ['https://api.example'],
        profile: 'any',
        algs: ['RS256'],
        audienceClaim: 'aud',
        clockToleranceSeconds: 5,
        bindings: ['jkt']
      },
      scopeClaims: ['scope'],
      dpopMode: 'ALLOWED',
      introspection: undefined
    }]),
    findSigner: findSignerByCrypto,
    verified: createVerifiedTokens()
  })
  const guard = createGuard({
    mode: 'ALLOWED',
    tokens,
    proofs: {
      iatOffsetSeconds: 300,
      iatLeewaySeconds: 30,
      keys: createClientKeys(JWS_ALGS, { nowMs: () => 0 }),
      replay: createMemoryStore({ max: 100, now: () => clock.now, steadyMs: () => clock.now * 1000, randomBytes }),
      nonces: undefined
    },
    verifyProof,
    rateLimit: undefined,
    resolveUrl: createRequestUrlResolver({ trustProxy: false, publicUrl }),
    readCertificate: createCertificateReader({ source: 'off', isTrustedPeer: () => false }),
    now: () => clock.now
  })
  /** The reason of the refusal, or the scopes of the accepted caller. */
  const send = (change: Partial<typeof recorded> = {}): Promise<string> =>
    new Promise((resolve, reject) => {
      const { method, target, host, authorization, proof } = { ...recorded, ...change }
      const rawHeaders = ['Host', host, 'Authorization', authorization, ...proof === '' ? [] : ['DPoP', proof]]
      guard(
        arrivedRequest({ method, url: target, headers: { host, authorization }, rawHeaders, socket: {} }),
        (error, identity) => {
          if (identity) resolve(identity.token.scopes.join(' '))
          else if (error instanceof Refusal) resolve(error.reason)
          else reject(new Error('no decision', { cause: error }))
        }
      )
    })
  return { clock, send }
}

const stranger = await createDpopClient()
const strangersProof = stranger.proof({ token, url: 'https://api.example/api/private-scoped', claims: { iat: madeAt } })

/** Each row of the table, as an attacker would try it with the recorded request. */
const ATTEMPTS: Record<string, () => Promise<string>> = {
  'send the token as `Bearer`': () => createService().send({ authorization: `Bearer ${token}`, proof: '' }),
  'send the token as `DPoP` without a proof': () => createService().send({ proof: '' }),
  'make a proof with a key of their own': () => createService().send({ proof: strangersProof }),
  'send the recorded request again': async () => {
    const { send } = createService()
    await send()
    return send()
  },
  'use the recorded proof for another path': () => createService().send({ target: '/api/admin' }),
  'use it with another method': () => createService().send({ method: 'DELETE' }),
  'use it at another server of the same API': () =>
    createService('https://other.example').send({ host: 'other.example' }),
  'wait six minutes': () => {
    const { clock, send } = createService()
    clock.now += 360
    return send()
  },
  'write a new time into it': () => {
    const claims = Buffer.from(JSON.stringify({ ...decode(proofClaims) as object, iat: madeAt + 1 })).toString(
      'base64url'
    )
    return createService().send({ proof: `${proofHeader}.${claims}.${proofSignature}` })
  }
}

t.test('The request of docs/guide/dpop.md passes, and its parts are those that are shown.', async t => {
  t.equal(await createService().send(), 'read:messages')
  const shown = dpopBlocks.filter(({ language }) => language === 'json').map(({ text }) => JSON.parse(text))
  t.strictSame(shown, [decode(token.split('.')[1]!), decode(proofHeader), decode(proofClaims)])
  t.equal((decode(proofClaims) as { ath: string }).ath, hashOf(token))
})

t.test('Each attempt with the recorded request is refused as the table says.', async t => {
  const rows = readTable(readSection('docs/guide/dpop.md', 'Why a stolen token does not work'))
  t.strictSame(rows.map(([attempt]) => attempt), Object.keys(ATTEMPTS))
  for (const [attempt = '', reason = ''] of rows) t.equal(`\`${await ATTEMPTS[attempt]!()}\``, reason, attempt)
})

t.test('The answer with a nonce challenge is the one that is shown.', async t => {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer, { DPOP_NONCE: 'required' })
  const client = await createDpopClient()
  const bound = issuer.token({ cnf: client.cnf })
  const { status, headers } = await callDpop(running, bound, client.proof({ token: bound, url: `${running.url}/api/private` }))
  const [first, ...lines] = dpopBlocks.filter(({ language }) => language === 'http')[1]!.text.trim().split('\n')
  t.equal(first, `HTTP/1.1 ${status} Unauthorized`)
  const shown = Object.fromEntries(
    lines.map(line => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(': ') + 2)])
  )
  t.equal(shown['www-authenticate'], headers['www-authenticate'])
  t.equal(shown['dpop-nonce']!.length, headers['dpop-nonce']!.length)
})

t.test('More providers are named, and each is marked as run, read or reported.', async t => {
  const rows = readTable(readSection('docs/reference/providers.md', 'More providers'))
  t.strictSame(rows.filter(row => row.length !== 4 || !['run', 'read', 'reported'].includes(row[3]!)), [])
  for (const name of ['AD FS', 'Cognito', 'Clerk', 'WorkOS', 'WSO2', 'Kubernetes', 'Hasura', 'RFC 8414']) {
    t.equal(rows.filter(([provider]) => provider!.includes(name)).length, 1, name)
  }
})

t.test('The token of each provider passes under the settings beside it, and grants the scope.', async t => {
  const providers = readTable(textOf('docs/reference/providers.md')).map(([name = '']) =>
    /^\[(.+)\]/.exec(name)![1]!
  )
  t.equal(providers.length, 8)
  for (const provider of providers) {
    const section = readSection('docs/reference/providers.md', provider)
    const [, variables = ''] = /```sh\n([\s\S]*?)```/.exec(section) ?? []
    const [, example = '{}'] = /```json\n([\s\S]*?)```/.exec(section) ?? []
    const found = collectSettings({
      environment: parseCommand(variables).variables,
      readFile: () => undefined
    })
    const settings = await validateSettings(found, processSurroundings)
    const rules = rulesOfIssuer(settings.idp.issuers[0]!, settings)
    const { header, claims } = JSON.parse(example) as { header: object, claims: Record<string, unknown> }
    const scopes = readScopes(claims, settings.idp.scopeClaims)
    t.ok(scopes.some(scope => scope.endsWith('read:messages')), `${provider}: ${scopes.join(' ')}`)

    const outcome = (change: object) => {
      try {
        const text = encodeJws(header, { ...claims, exp: 2, ...change }, () => Buffer.from('signature'))
        checkByRules({ ...readToken(text), now: 1 }, rules)
        return 'accepted'
      } catch (error) {
        return (error as Refusal).reason
      }
    }
    t.equal(outcome({}), 'accepted', provider)
    t.equal(outcome({ iss: 'https://other.example' }), 'token_issuer', provider)
    t.equal(outcome({ aud: 'other' }), 'token_audience', provider)
    t.equal(outcome({ aud: undefined }), 'token_claim_invalid', provider)
  }
})
