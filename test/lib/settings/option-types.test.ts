import t from 'tap'
import type { GateOptions, GateRuleOptions, HoldfastOptions, McpTargetOptions } from '../../../lib/settings/option-types.ts'
import { ownOptions, settingsFromOptions } from '../../../lib/settings/options.ts'
import { settingNames, settingSpec } from '../../../lib/settings/specs.ts'
import { noSettings } from '../../../lib/settings/tree.ts'
import { containing } from '../../helpers/containing.ts'
import { textOf } from '../../helpers/documents.ts'
import { parseGate } from '../../helpers/gate-section.ts'

/** The values that options give. */
const settingsOf = (options: object) => settingsFromOptions(options).values

t.test('The page of the plugin names each setting that has no effect in another app.', async t => {
  const page = textOf('docs/reference/plugin.md')
  for (const name of settingNames) {
    const { variable, from, serviceOnly } = settingSpec(name)
    if (!serviceOnly) continue
    const written = from === 'environment' ? variable : name
    t.match(page, containing(`\`${written}\``))
    t.doesNotThrow(() => settingsFromOptions({ [written]: 'x' }), `${written} is an option`)
  }
})

t.test('Options have the shape of the file or the names of the environment.', async t => {
  const values = { ...noSettings(), idp: { introspection: {}, domain: 'tenant.example', dpopRequired: true } }
  t.strictSame(
    settingsOf({
      idp: { domain: 'tenant.example', dpopRequired: true, jwksUri: undefined, issuer: null },
      server: undefined
    }),
    values
  )
  t.strictSame(
    settingsOf({ IDP_DOMAIN: 'tenant.example', DPOP_REQUIRED: true, IDP_ISSUER: undefined, IDP_AUDIENCE: '' }),
    values
  )
  for (
    const empty of [{ idp: { algs: undefined, jwksUri: null } }, {
      IDP_ALGS: undefined,
      IDP_JWKS_URI: null,
      IDP_ISSUER: ''
    }]
  ) t.strictSame(settingsOf(empty), noSettings(), 'so that a default takes its place')
  t.strictSame(
    settingsOf({
      idp: { issuers: [{ algs: undefined, jwksUri: null, introspection: undefined }, { introspection: null }] }
    }).idp.issuers,
    [{}, {}]
  )
  t.equal(
    settingsOf({ idp: { audience: '' } }).idp.audience,
    '',
    'only in the environment does an empty text count as unset'
  )
  t.strictSame(settingsOf({ server: { trustProxy: ['loopback', '10.0.0.1'] } }).server, {
    trustProxy: ['loopback', '10.0.0.1']
  })
})

t.test('Each member that the types of the gate have is one that the gate knows.', async t => {
  const rule: Required<Omit<GateRuleOptions, 'allow'>> = {
    path: '/orders/*',
    methods: ['GET'],
    scope: 'a',
    anyScope: ['b', 'c'],
    claims: { team: ['x', 'y'] },
    acr: 'gold',
    maxAgeSeconds: 60,
    audience: 'https://other.example',
    timeoutSeconds: 60,
    optional: true,
    observe: false,
    upgrade: true,
    mcp: {}
  }
  const gate: Required<GateOptions> = {
    upstream: 'http://127.0.0.1:3000',
    rules: [rule, { path: '/open', allow: 'anyone' }, {
      path: '/mcp',
      mcp: { methods: ['tools/call'], tools: ['read_*'], arguments: { a: 1, b: [true], c: { startsWith: 'x' }, d: { claim: 'sub' } }, onlyRuled: false, onlyCallable: false } satisfies Required<McpTargetOptions>
    }],
    timeoutSeconds: 5,
    idleSeconds: 3,
    keepAliveSeconds: 7,
    host: 'upstream',
    bodyLimit: 1024,
    claims: { team: 'https://api.example/team' },
    withheldHeaders: ['X-Tenant'],
    passCredentials: true,
    exactPaths: true,
    statementKey: ['key.pem'],
    statementAudience: 'x',
    ownPrefix: '/-',
    grpcPort: 9000
  }
  t.strictSame((await parseGate(gate)).problems, [])
  t.strictSame((await parseGate({ ...gate, claims: ['team'] })).problems, [])
  t.strictSame((await parseGate({ ...gate, claims: 'team' })).problems.length, 1)
})

t.test('Options are an object, and what Fastify reads is taken out of it.', async t => {
  for (const given of ['idp', 5, null, ['idp'], () => ({})]) {
    t.throws(() => ownOptions(given as never), {
      name: 'SettingsError',
      problems: ['options: expected an object with sections such as idp, or with names of the environment']
    })
  }
  const idp = { domain: 'tenant.example' }
  t.strictSame(ownOptions({ prefix: '/v1', logLevel: 'warn', logSerializers: {}, idp }), { idp })
  const gate = { upstream: undefined, rules: [{ path: '/*', scope: undefined }] }
  t.strictSame(settingsOf({ gate }), { ...noSettings(), gate: { rules: [{ path: '/*' }] } }, 'a member may be left out by undefined')
  t.strictSame(
    settingsOf({ idp: { issuers: [{ issuer: 'https://a.example/', algs: undefined }] } }).idp.issuers,
    [{ issuer: 'https://a.example/' }]
  )
})

t.test('Proxies, which no section has, stand beside sections.', async t => {
  const options: HoldfastOptions = { idp: { domain: 'tenant.example' }, HTTPS_PROXY: 'http://p:3128', NO_PROXY: 'a' }
  t.hasStrict(settingsOf(options), {
    idp: { domain: 'tenant.example' },
    proxies: { httpsProxy: 'http://p:3128', noProxy: 'a' }
  })
})

const REFUSED: ReadonlyArray<{ options: object, problem: string | RegExp }> = [
  {
    options: { idp: { domian: 'tenant.example' } },
    problem: 'options: unknown key "idp.domian"; did you mean idp.domain?'
  },
  { options: { idpp: {} }, problem: 'options: unknown key "idpp"; did you mean idp?' },
  { options: { ipd: {} }, problem: 'options: unknown key "ipd"; did you mean idp?' },
  { options: { IDP: {} }, problem: 'options: unknown key "IDP"; did you mean idp?' },
  { options: { domain: 'tenant.example' }, problem: 'options: unknown key "domain"; did you mean idp.domain?' },
  {
    options: { IDP_ISUER: 'https://tenant.example/' },
    problem: 'options: unknown key "IDP_ISUER"; did you mean IDP_ISSUER?'
  },
  { options: { unheardOf: 1 }, problem: 'options: unknown key "unheardOf"' },
  { options: { idp: 'tenant.example' }, problem: 'options: idp is a section: expected keys under it' },
  { options: { idp: ['tenant.example'] }, problem: 'options: idp is a section: expected keys under it' },
  {
    options: { idp: { audience: () => 'x' } },
    problem: /^options: idp\.audience is not a text, a number, a boolean or a list; allowed: /
  },
  { options: { IDP_SCOPE_CLAIMS: [Symbol('scope')] }, problem: /^options: IDP_SCOPE_CLAIMS is not a text/ },
  {
    options: { idp: { domain: 'tenant.example' }, IDP_AUDIENCE: 'x' },
    problem: /idp is a section of the configuration file, and IDP_AUDIENCE is a name of the environment: use one form/
  },
  {
    options: { idp: { issuers: [{ issuer: 'https://a.example/', algs: () => 'ES256' }] } },
    problem: /^options: idp\.issuers\[0\]\.algs is not a text/
  },
  {
    options: { idp: { issuers: [{ introspection: 'jwt' }] } },
    problem: 'options: idp.issuers[0].introspection is a section: expected keys under it'
  },
  {
    options: { idp: { issuers: [{ introspection: ['jwt'] }] } },
    problem: 'options: idp.issuers[0].introspection is a section: expected keys under it'
  },
  {
    options: { idp: { issuers: [{ introspection: { client: 'api' } }] } },
    problem:
      'options: unknown key "idp.issuers[0].introspection.client"; did you mean idp.issuers[0].introspection.clientId?'
  },
  {
    options: { idp: { issuers: [{ introspect: { for: 'jwt' } }] } },
    problem: /^options: unknown key "idp\.issuers\[0\]\.introspect"/
  },
  {
    options: { idp: { issuers: [() => ({ issuer: 'https://a.example/' })] } },
    problem: 'options: idp.issuers[0] is no section: expected keys under it'
  },
  { options: { idp: { issuers: Promise.resolve([]) } }, problem: /^options: idp\.issuers is not a text/ },
  { options: { idp: { scopeImplies: { admin: new Date() } } }, problem: /^options: idp\.scopeImplies is not a text/ },
  {
    options: { gate: { rules: [] }, IDP_AUDIENCE: 'x' },
    problem: /gate is a section of the configuration file, and IDP_AUDIENCE is a name of the environment: use one form/
  }
]

t.test('Unknown options are refused, with the name that was meant.', async t => {
  for (const { options, problem } of REFUSED) {
    t.throws(() => settingsFromOptions(options), { name: 'SettingsError', problems: [problem] }, String(problem))
  }
})
