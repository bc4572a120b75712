import { existsSync } from 'node:fs'
import t from 'tap'
import { readSettings } from '../../../holdfast.ts'
import type { Variables } from '../../helpers/variables.ts'
import { settingsFromOptions } from '../../../lib/settings/options.ts'
import { replayPromise, reportStart, startWarnings } from '../../../lib/settings/start-report.ts'
import { validateSettings } from '../../../lib/settings/validation.ts'
import { processSurroundings } from '../../../server/surroundings.ts'

const ENOUGH: Variables = { IDP_DOMAIN: 'tenant.example', IDP_AUDIENCE: 'https://api.example' }
const PROOFS = ['ES256', 'ES384', 'EdDSA', 'Ed25519', 'PS256', 'RS256']
const PLAIN = {
  issuers: ['https://tenant.example/'],
  audience: 'https://api.example',
  dpopMode: 'ALLOWED',
  tokenAlgs: ['RS256'],
  proofAlgs: PROOFS,
  replay: { kind: 'memory' }
}

t.test('Settings in force are reported with their values, and others are left out.', async t => {
  const { proofAlgs, replay, ...bearer } = PLAIN
  const cases: Array<[Variables, object]> = [
    [{}, PLAIN],
    [{ IDP_ISSUER: 'https://tenant.example/realm', IDP_DPOP_MODE: 'REQUIRED', DPOP_ALGS: 'ES256' }, {
      ...PLAIN,
      issuers: ['https://tenant.example/realm'],
      dpopMode: 'REQUIRED',
      proofAlgs: ['ES256']
    }],
    [{ DPOP_ENABLED: 'false', DPOP_REPLAY: 'redis://cache' }, { ...bearer, dpopMode: 'DISABLED' }],
    [{ IDP_DOMAIN: 'https://user:s3cret@tenant.example' }, { ...PLAIN, issuers: [] }],
    [{ PUBLIC_URL: 'https://www.example.com/svc' }, { ...PLAIN, publicUrl: 'https://www.example.com/svc' }],
    [{ TRUST_PROXY: 'loopback 10.0.0.0/8' }, { ...PLAIN, trustedProxies: ['loopback', '10.0.0.0/8'] }],
    [{ TRUST_PROXY: 'true' }, { ...PLAIN, trustedProxies: true }],
    [{ CLIENT_CERTIFICATE: 'xfcc', TRUST_PROXY: 'true' }, {
      ...PLAIN,
      trustedProxies: true,
      clientCertificate: 'xfcc'
    }],
    [{ SECURITY_PROFILE: 'fapi2', IDP_ALGS: 'ES256', DPOP_ALGS: 'PS256' }, {
      ...PLAIN,
      tokenAlgs: ['ES256'],
      proofAlgs: ['PS256'],
      securityProfile: 'fapi2'
    }],
    [{ IDP_AUDIENCE: 'https://a.example https://b.example' }, {
      ...PLAIN,
      audience: ['https://a.example', 'https://b.example']
    }],
    [{ DPOP_REPLAY: 'off' }, { ...PLAIN, replay: { kind: 'off' } }]
  ]
  for (const [values, report] of cases) t.strictSame(reportStart(await readSettings({ ...ENOUGH, ...values })), report)
})

t.test('The report says where a proof is accepted at most once, for each store, with nonces and without.', async t => {
  const page = 'https://github.com/holdfast/holdfast/blob/main/docs/guide/instances.md'
  t.ok(existsSync(page.slice(page.indexOf('docs/'))), 'the page is there')
  const perInstance =
    'A proof is accepted at most once by one instance: each further instance would accept it once more. For ' +
    'several, set DPOP_NONCE (dpop.nonce) to required everywhere, or DPOP_REPLAY (dpop.replay) to a Redis that all of ' +
    `them share (${page})`
  const apart =
    'A proof is accepted at most once by all instances together, because a nonce is good only at the process ' +
    `that made it. The balancer must keep clients at their instance (${page})`
  const shared = 'A proof is accepted at most once by all instances that share the replay store'
  const rows: Array<[Variables, string | undefined]> = [
    [{}, perInstance],
    [{ DPOP_NONCE: 'required' }, apart],
    [{ DPOP_REPLAY: 'redis://cache' }, shared],
    [{ DPOP_REPLAY: 'redis://cache', DPOP_NONCE: 'required' }, shared],
    [{ DPOP_REPLAY: 'off' }, 'A proof may be used again: DPOP_REPLAY is off'],
    [{ IDP_DPOP_MODE: 'DISABLED' }, undefined]
  ]
  for (const [values, promise] of rows) {
    t.equal(replayPromise(await readSettings({ ...ENOUGH, ...values })), promise, JSON.stringify(values))
  }
})

t.test('Of the URL of a replay store only the hosts are reported.', async t => {
  const cases: Array<[url: string, hosts: string[]]> = [
    ['rediss://user:s3cret@cache.internal:6380/4', ['cache.internal:6380']],
    ['redis://:s3cret@[fd00::1]', ['[fd00::1]:6379']],
    ['redis://:s3cret@a:1,b:2/0?sentinel=main&sentinelUsername=s3cret&sentinelPassword=s3cret', ['a:1', 'b:2']]
  ]
  for (const [url, hosts] of cases) {
    t.strictSame(reportStart(await readSettings({ ...ENOUGH, DPOP_REPLAY: url })).replay, { kind: 'redis', hosts })
  }
})

t.test(
  'An operator is warned of a domain with a scheme, of strange variables, of a trusted Host header and of an ' +
    'unused secret.',
  async t => {
    const host =
      /^Neither PUBLIC_URL \(server\.publicUrl\) nor TRUST_PROXY \(server\.trustProxy\) is set, so Host is believed: .* for another name .* http:\/\/evil\.example .* Set PUBLIC_URL \(server\.publicUrl\)/
    const cases: Array<{ values: Variables, unknownVariables?: string[], patterns?: RegExp[] }> = [
      { values: {}, patterns: [host] },
      { values: { IDP_DPOP_MODE: 'REQUIRED' }, patterns: [host] },
      { values: { IDP_DPOP_MODE: 'DISABLED' } },
      { values: { PUBLIC_URL: 'https://api.example' } },
      {
        values: { PUBLIC_URL: 'https://api.example', DPOP_NONCE_SECRET: 'A'.repeat(43) },
        patterns: [
          /^DPOP_NONCE_SECRET \(dpop\.nonceSecret\) is set beside DPOP_REPLAY=memory and is not used: every instance that has it would accept the same proof once more\. Remove it, or set DPOP_REPLAY to a Redis that all instances share$/
        ]
      },
      {
        values: { PUBLIC_URL: 'https://api.example', DPOP_NONCE_SECRET: 'A'.repeat(43), DPOP_REPLAY: 'redis://cache' }
      },
      { values: { TRUST_PROXY: 'loopback' } },
      {
        values: { TRUST_PROXY: 'loopback', CORS_HEADERS: 'Mcp-Session-Id' },
        patterns: [/^CORS_HEADERS \(server\.corsHeaders\) has no effect: CORS is off, because CORS_ORIGINS is not set$/]
      },
      { values: { TRUST_PROXY: 'loopback', CORS_HEADERS: 'Mcp-Session-Id', CORS_ORIGINS: '*' } },
      { values: { TRUST_PROXY: 'false' }, patterns: [host] },
      {
        values: { TRUST_PROXY: 'true' },
        unknownVariables: ['IDP_COLOUR', 'DPOP_COLOUR'],
        patterns: [/^These variables .* have no effect: IDP_COLOUR, DPOP_COLOUR$/]
      },
      {
        values: { PUBLIC_URL: 'https://api.example', IDP_DOMAIN: 'https://tenant.example' },
        patterns: [/^IDP_DOMAIN starts with a scheme, so there is no issuer .* without https:\/\/$/]
      },
      {
        values: { PUBLIC_URL: 'https://api.example', IDP_DOMAIN: 'tenant.example', IDP_ISSUER: 'https://login.example/' },
        patterns: [/^IDP_DOMAIN \(idp\.domain\) is not used, because IDP_ISSUER \(idp\.issuer\) is set too/]
      },
      {
        values: {
          PUBLIC_URL: 'https://api.example',
          IDP_DOMAIN: 'tenant.example',
          IDP_ISSUER: 'https://tenant.example/'
        }
      },
      {
        values: {
          PUBLIC_URL: 'https://api.example',
          IDP_DOMAIN: 'Tenant.example:443',
          IDP_ISSUER: 'https://tenant.example'
        }
      },
      { values: { PUBLIC_URL: 'https://api.example', IDP_DOMAIN: undefined, IDP_ISSUER: 'https://login.example/' } }
    ]
    for (const { values, unknownVariables = [], patterns = [] } of cases) {
      const warnings = startWarnings(
        await validateSettings(
          { ...settingsFromOptions({ ...ENOUGH, ...values }), unknownVariables },
          processSurroundings
        ),
        processSurroundings.now
      )
      t.equal(warnings.length, patterns.length, JSON.stringify(values))
      warnings.forEach((warning, index) => t.match(warning, patterns[index]))
    }
  }
)
