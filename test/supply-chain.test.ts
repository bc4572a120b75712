import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { exactly } from './helpers/containing.ts'
import { root, textOf } from './helpers/documents.ts'

/**
 * One package of a lock file. What may run when it is installed, and on which Node, test/node-versions.test.ts looks
 * at.
 */
interface Locked {
  version?: string
  dev?: boolean
  license?: string
  integrity?: string
  resolved?: string
  link?: boolean
}

const LOCKS = ['package-lock.json', 'bench/package-lock.json']
const read = (file: string) => JSON.parse(textOf(file))
const lockedIn = (file: string) =>
  Object.entries(read(file).packages as Record<string, Locked>).filter(([path]) => path !== '').map((
    [path, entry]
  ) => ({ path, ...entry }))

/** A changed byte in a package is found by `npm ci`, if its hash is here. */
const isPinned = ({ version, integrity, link }: Locked) =>
  link !== true && /^\d+\.\d+\.\d+/.test(version ?? '') && /^sha512-[A-Za-z0-9+/]{86}==$/.test(integrity ?? '')

t.test('Each package of a lock file has one version and its SHA-512.', async t => {
  for (const lock of LOCKS) {
    const { lockfileVersion } = read(lock)
    t.equal(lockfileVersion, 3)
    t.strictSame(lockedIn(lock).filter(entry => !isPinned(entry)), [], lock)
  }
  const good = { version: '1.0.0', integrity: `sha512-${'A'.repeat(86)}==` }
  t.ok(isPinned(good))
  for (
    const bad of [{ integrity: 'sha1-AAAA' }, { integrity: undefined }, {
      version: 'git+ssh://git@example.com/x.git#1'
    }, { link: true }]
  ) t.notOk(isPinned({ ...good, ...bad }), JSON.stringify(bad))
})

t.test('The dependencies of package.json are locked, and come from the registry.', async t => {
  for (const folder of ['', 'bench/', 'packages/holdfast/', 'packages/holdfast-cli/']) {
    const { dependencies = {}, devDependencies = {}, optionalDependencies = {}, bundleDependencies } = read(
      `${folder}package.json`
    )
    const asked = Object.entries(
      { ...dependencies, ...devDependencies, ...optionalDependencies } as Record<string, string>
    )
    t.strictSame(
      asked.filter(([, range]) => !range.split(' || ').every(part => /^[\^~]?\d+(?:\.\d+)*$/.test(part))),
      [],
      `${folder}package.json`
    )
    t.equal(bundleDependencies, undefined)
    const locked = new Set(
      lockedIn(folder === 'bench/' ? 'bench/package-lock.json' : 'package-lock.json').map(({ path }) => path)
    )
    t.strictSame(
      asked.filter(([name]) => !locked.has(`node_modules/${name}`)),
      [],
      `${folder}package.json and its lock file`
    )
  }
})

/** Licences of what is installed with the service: they require no more than their own text. */
const PERMISSIVE = ['MIT', 'ISC', 'BSD-2-Clause', 'BSD-3-Clause', 'Apache-2.0', 'BlueOak-1.0.0']
/** Licences of what only developers install. */
const OF_TOOLS = [...PERMISSIVE, '0BSD', 'CC0-1.0', 'CC-BY-3.0', 'Python-2.0', 'MPL-2.0', '(WTFPL OR MIT)', '(MIT OR CC0-1.0)']
/** Packages whose package.json names no licence, with the file that does. */
const ELSEWHERE: Record<string, readonly [file: string, words: RegExp]> = {
  'node_modules/jsonc-simple-parser': ['license', /Permission is hereby granted, free of charge/]
}

function isLicensed ({ path, license, dev }: Locked & { path: string }) {
  const elsewhere = license === undefined && dev === true ? ELSEWHERE[path] : undefined
  if (elsewhere) return elsewhere[1].test(readFileSync(join(root, path, elsewhere[0]), 'utf8'))
  return (dev === true ? OF_TOOLS : PERMISSIVE).includes(license!)
}

t.test('Each package has a licence of the list.', async t => {
  for (const lock of LOCKS) {
    t.strictSame(
      lockedIn(lock).filter(entry => !isLicensed(entry)).map(({ path, license }) => `${path}: ${license}`),
      [],
      lock
    )
  }
  t.ok(isLicensed({ path: 'a', license: 'MIT' }))
  t.notOk(isLicensed({ path: 'a', license: 'GPL-3.0-only' }), 'the twin: another licence')
  t.notOk(
    isLicensed({ path: 'a', license: 'CC-BY-3.0' }),
    'and one that is only for tools, of what is installed with the service'
  )
  t.notOk(isLicensed({ path: 'a' }), 'and none at all')
})

t.test(
  'The bill of materials is CycloneDX, and has each package of the lock file, those for developers marked as ' +
    'such.',
  async t => {
    const { scripts } = read('package.json') as { scripts: Record<string, string> }
    const { stdout } = await promisify(execFile)('npm', scripts.sbom!.split(' ').slice(1), {
      cwd: root,
      maxBuffer: 1 << 24
    })
    // With --omit=dev npm leaves out what a tool needs as well as the service, such as ajv.
    const bill = JSON.parse(stdout) as {
      bomFormat: string,
      specVersion: string,
      components: Array<
        { purl: string, properties: Array<{ name: string }>, hashes: Array<{ alg: string }>, licenses?: unknown[] }
      >
    }
    t.match(bill, { bomFormat: exactly('CycloneDX'), specVersion: /^1\.\d$/ })
    const purlOf = ({ path, version }: Locked & { path: string }) =>
      `pkg:npm/${path.slice(path.lastIndexOf('node_modules/') + 13).replace('@', '%40')}@${version}`
    const locked = lockedIn('package-lock.json')
    const sorted = (purls: Iterable<string>) => [...new Set(purls)].sort()
    const isForDevelopers = ({ properties }: { properties: Array<{ name: string }> }) =>
      properties.some(({ name }) => name === 'cdx:npm:package:development')
    t.strictSame(sorted(bill.components.map(({ purl }) => purl)), sorted(locked.map(purlOf)))
    const served = bill.components.filter(component => !isForDevelopers(component))
    t.strictSame(
      sorted(served.map(({ purl }) => purl)),
      sorted(locked.filter(({ dev }) => !dev).map(purlOf)),
      'what is installed with the service'
    )
    t.strictSame(
      served.filter(({ hashes, licenses }) => !hashes.some(({ alg }) => alg === 'SHA-512') || !licenses?.length).map((
        { purl }
      ) => purl),
      [],
      'each with its hash and licence'
    )
  }
)

t.test('Each package that the service is designed around is loaded by the service itself.', async t => {
  const sources = [
    'holdfast.ts',
    ...['lib', 'plugins', 'server'].flatMap(folder =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map(file => join(folder, file))
    )
  ].filter(file => file.endsWith('.ts')).map(file => textOf(file))
  const designed = [
    'fastify',
    '@fastify/jwt',
    'get-jwks',
    '@fastify/env',
    '@fastify/sensible',
    'fastify-plugin',
    'undici'
  ]
  for (const name of designed) {
    const loads = new RegExp(`(?:^import (?!type ).* from |\\b(?:import|require)\\()'${name}'`, 'm')
    t.ok(sources.some(source => loads.test(source)), name)
  }
})
