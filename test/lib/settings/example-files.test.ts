import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv } from 'ajv'
import t from 'tap'
import { parse } from 'yaml'
import { containing } from '../../helpers/containing.ts'
import type { SettingsError } from '../../../lib/base/settings-error.ts'
import { collectSettings } from '../../../lib/settings/sources.ts'
import { validateSettings } from '../../../lib/settings/validation.ts'
import { settingNames, settingSpec, variables, type SettingName } from '../../../lib/settings/specs.ts'
import { root } from '../../helpers/documents.ts'
import { IN_FORCE } from '../../../dev/generate/settings-files.ts'
import { processSurroundings } from '../../../server/surroundings.ts'

const FOLDER = join(root, 'examples/settings')

const read = (file: string) => readFileSync(join(FOLDER, file), 'utf8')

/** What the service makes of one file in its working directory. @throws SettingsError */
function start (file: '.env' | 'config.yaml', text: string) {
  const found = collectSettings({ environment: {}, readFile: name => name === file ? text : undefined })
  return validateSettings(found, processSurroundings)
}

/** A line that sets something once its # is away. A remark has a space behind it. */
const COMMENTED = /^( *)#(\w+)[=:]/

for (const [file, example] of [['.env', '.env.example'], ['config.yaml', 'config.example.yaml']] as const) {
  t.test(`${example} is accepted as ${file}, and what it shows are the defaults.`, async t => {
    const bare = await start('.env', 'IDP_DOMAIN=tenant.example\nIDP_AUDIENCE=https://api.example')
    const lines = read(example).split('\n')
    t.strictSame(await start(file, read(example)), bare)
    t.strictSame(
      await start(file, lines.filter(line => !line.trimStart().startsWith('#')).join('\n')),
      bare,
      'without the comments'
    )

    const forFile = (name: SettingName) =>
      file === '.env' ? settingSpec(name).variable : name.split('.').at(-1)
    const commented = lines.flatMap((line, at) => COMMENTED.test(line) ? [{ at, key: COMMENTED.exec(line)![2]! }] : [])
    t.strictSame(commented.map(({ key }) => key), [
      ...file === '.env' ? ['CONFIG_FILE'] : [],
      ...settingsInOrder(file).filter(name => !IN_FORCE.includes(name)).map(forFile)
    ], 'every setting is shown')
    for (const { at, key } of commented) {
      // The list of issuers takes the place of the domain.
      const rest = key === 'issuers' ? lines.map(line => line.replace(/^ *domain:.*/, '')) : lines
      const changed = rest.with(at, lines[at]!.replace('#', '')).join('\n')
      const settings = await start(file, changed).catch((error: SettingsError) => error.message)
      t.not(typeof settings, 'string', `${key} is accepted when its # is away`)
      const name = settingsInOrder(file).find(name => forFile(name) === key)
      if (name && 'default' in settingSpec(name)) t.strictSame(settings, bare, `${key} shows its default`)
    }
    for (const name of IN_FORCE) {
      const without = lines.filter(line => !new RegExp(`^ *${forFile(name)}[=:]`).test(line))
      t.equal(without.length, lines.length - 1)
      await t.rejects(start(file, without.join('\n')), {
        message: new RegExp(`${settingSpec(name).variable} .* is not set`)
      }, `${name} must be there`)
    }
  })
}

const sectionOf = (name: SettingName) =>
  settingSpec(name).from === 'environment' ? undefined : name.split('.')[0]

/** The file has them in sections. */
function settingsInOrder (file: '.env' | 'config.yaml') {
  if (file === '.env') return [...variables.values()]
  const sections = [...new Set(settingNames.flatMap(name => sectionOf(name) ?? []))]
  return sections.flatMap(section => settingNames.filter(name => sectionOf(name) === section))
}

t.test('No example is a secret that a user might keep.', async t => {
  const secrets = settingNames.filter(name => settingSpec(name).secret)
  t.ok(secrets.includes('dpop.nonceSecret'))
  for (const text of [read('.env.example'), read('config.example.yaml')]) {
    t.match(text, /^ *#(?:DPOP_NONCE_SECRET=|nonceSecret:)$/m)
  }
  for (const name of secrets) t.notMatch(String(settingSpec(name).example), containing('@'), name)
})

const isValid = new Ajv({ strict: true, allowUnionTypes: true, allErrors: true }).compile(
  JSON.parse(read('config.schema.json')) as object
)

/** What an editor says that knows the schema: the paths and words of its complaints. */
function judge (text: string) {
  return isValid(parse(text))
    ? []
    : isValid.errors!.map(({ instancePath, message, params }) =>
      `${instancePath} ${message} ${params.additionalProperty ?? ''}`.trim()
    )
}

t.test('The first line of the example names the schema, and the schema accepts it.', async t => {
  t.equal(
    read('config.example.yaml').split('\n')[0],
    '# yaml-language-server: $schema=examples/settings/config.schema.json'
  )
  t.strictSame(judge(read('config.example.yaml')), [])
  t.strictSame(judge(''), [])
  t.strictSame(judge('idp:'), [])
})

t.test('The schema refuses an unknown key, a wrong word and a number that is too large.', async t => {
  const NO_SUCH_KEY = 'must NOT have additional properties'
  t.strictSame(judge('idp: { domain: a, audience: b }'), [])
  t.strictSame(judge('idp: { domian: a, audience: b }'), [`/idp ${NO_SUCH_KEY} domian`])
  t.strictSame(judge('idq: {}'), [`${NO_SUCH_KEY} idq`])
  t.strictSame(judge('idp.domian: a'), [`${NO_SUCH_KEY} idp.domian`])
  t.strictSame(judge('api: { profile: 2 }'), [])
  t.not(judge('api: { profile: 3 }').length, 0)
  t.strictSame(judge('idp: { clockToleranceSeconds: 300 }'), [])
  t.not(judge('idp: { clockToleranceSeconds: 301 }').length, 0)
  t.strictSame(judge('idp: { scopeClaims: "scope, scp" }'), [])
  t.not(judge('idp: { scopeClaims: scopes }').length, 0)
})

t.test('The schema knows the parts of the sections gate and revocation.', async t => {
  const NO_SUCH_KEY = 'must NOT have additional properties'
  t.strictSame(
    judge(
      'gate: { upstream: "http://a:1", rules: [{ path: /a, methods: GET, scope: [a, b], mcp: { tools: [read_a] } }] }'
    ),
    []
  )
  t.ok(judge('gate: { upstreem: "http://a:1" }').includes(`/gate ${NO_SUCH_KEY} upstreem`))
  t.ok(judge('gate: { rules: [{ path: /a, scopes: a }] }').includes(`/gate/rules/0 ${NO_SUCH_KEY} scopes`))
  t.not(judge('gate: { rules: [{ path: /a, allow: nobody }] }').length, 0)
  t.strictSame(
    judge(
      'revocation: { transmitters: [{ issuer: "https://a", delivery: poll, clientSecret: { env: A } }], outage: serve }'
    ),
    []
  )
  t.ok(
    judge('revocation: { transmitters: [{ issuer: "https://a" }] }').includes(
      "/revocation/transmitters/0 must have required property 'delivery'"
    )
  )
  t.ok(
    judge('revocation: { transmitters: [{ delivery: poll, clientSecrte: a }] }').includes(
      `/revocation/transmitters/0 ${NO_SUCH_KEY} clientSecrte`
    )
  )
  t.not(judge('revocation: { staleSeconds: 0 }').length, 0)
})

/** Values as they may be written; each is tried for every setting. */
const WRITTEN = [
  '[{ issuer: https://a.example }]',
  '',
  '~',
  '0',
  '1',
  '2',
  '5',
  '007',
  '301',
  '1.5',
  '0x10',
  '1e2',
  'true',
  'True',
  'FALSE',
  'tRue',
  '"off"',
  '"1"',
  '"300"',
  '[]',
  '{}',
  '[1]',
  '[true]',
  'a b',
  'a.example',
  'off on',
  'https://a.example',
  'https://a.example https://b.example:8443',
  '[loopback, 10.0.0.0/8]',
  'https://a.example/team',
  '{a: [b, c], d: e}',
  `[${'A'.repeat(43)}]`,
  `${'A'.repeat(43)} ${'B'.repeat(43)}`
]

/** The keys of single values. The parts of sections are tried one by one, in test/programs/section-schema.test.ts. */
const keysOfValues = () =>
  settingNames.filter(name => !settingSpec(name).properties && settingSpec(name).from !== 'environment')

/** The file keys of the settings that the service takes with this value, which all of them have at once. */
async function keysThatTake (value: string) {
  const keys = keysOfValues()
  const problems = await start('config.yaml', keys.map(key => `${key}: ${value}`).join('\n')).then(
    () => [],
    ({ problems }: SettingsError) => problems
  )
  const refused = problems.map(problem =>
    /^(?:config\.yaml, line \d+: )?(?:\w+ \()?([\w.]+)(?:\[\d+\])?\)? is [^]*; (?:allowed:|must stand alone)/.exec(
      problem
    )?.[1]
  )
  return keys.filter(key => !refused.includes(key))
}

t.test('The schema accepts whatever the service accepts.', async t => {
  const words = settingNames.flatMap(name => {
    const { enum: own = [], items } = settingSpec(name)
    if (items?.type === 'object') return []
    const list = items?.enum ?? []
    return [...own, ...list, list.join(' '), list.join(','), `[${list.join(', ')}]`]
  })
  const taken = new Set<string>()
  const inEntry = (text: string) => `idp: { audience: a, issuers: [{ issuer: https://a.example, ${text} }] }`
  for (const text of ['introspection.for: off', 'introspection:'].map(inEntry)) {
    await t.resolves(start('config.yaml', text))
    t.strictSame(judge(text), [], text)
  }
  for (const value of new Set([...WRITTEN, ...words])) {
    const keys = await keysThatTake(value)
    if (value !== '' && value !== '~') { for (const key of keys) taken.add(key) }
    const lines = keys.flatMap(key => [
      `${key}: ${value}`,
      `${key.split('.').map((word, depth) => `${'  '.repeat(depth)}${word}:`).join('\n')} ${value}`
    ])
    t.strictSame(
      lines.flatMap(line => judge(line).map(complaint => `${line}: ${complaint}`)),
      [],
      value
    )
  }
  t.strictSame([...taken].sort(), keysOfValues().sort(), 'each setting took a value')
})
