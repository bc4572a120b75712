import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { satisfies } from 'semver'
import t from 'tap'
import { root, textOf } from '../helpers/documents.ts'
import { expectSuccess, install, packHoldfast } from '../helpers/package-apps.ts'
import { fetchRuntime } from '../helpers/runtimes.ts'

/** The tests of the package, as it is packed, with each Fastify that its peer range has at an end. */

t.setTimeout(900_000)

const manifest = JSON.parse(textOf('packages/holdfast/package.json')) as {
  peerDependencies: Record<string, string>,
  peerDependenciesMeta: object
}
const RANGE = manifest.peerDependencies['fastify']!
const PEERS = Object.keys(manifest.peerDependenciesMeta).filter(name => !/otel|opentelemetry/.test(name))
/** Those that start the service itself are for the Fastify that the service brings. */
const isOfPackage = (text: string) =>
  text.includes("'../../packages/holdfast/") && !/\bstartApp\b[^}]*\} from|'\.\.\/helpers\/revocation-site/.test(text)
const FILES = ['packages', 'plugins'].flatMap(folder =>
  readdirSync(join(root, 'test', folder)).map(file => `test/${folder}/${file}`)
)
  .filter(file => file.endsWith('.test.ts') && isOfPackage(textOf(file)))

t.test('The tests of the package pass with the oldest Fastify 5, the newest, and the newest 6.', async t => {
  const { project, tarball, folder } = await packHoldfast(t)
  const versions = JSON.parse(await expectSuccess(folder, 'npm', ['view', 'fastify', 'versions', '--json'])) as string[]
  const newest = (major: string) => versions.findLast(version => version.startsWith(`${major}.`))!
  const [, oldest] = /^\^(5\.\d+\.\d+)/.exec(RANGE)!
  t.ok(FILES.length >= 4, 'there are such tests')
  for (const version of [oldest!, newest('5'), newest('6')]) {
    t.ok(satisfies(version, RANGE), `the peer range has ${version}`)
    const cwd = project(`fastify-${version}`, {})
    // The newest release of a plugin may ask for a newer Fastify than the oldest.
    await install(cwd, '--legacy-peer-deps', tarball, `fastify@${version}`, ...PEERS)
    const node = version.startsWith('6.') ? await fetchRuntime(t, 'node@24') : process.execPath
    for (const file of FILES) {
      const output = await expectSuccess(root, node, [
        '--disable-warning=ExperimentalWarning',
        '--import=./cli/strip-types.js',
        '--import=./test/matrix/installed.js',
        file
      ], { MATRIX_FOLDER: cwd, TAP_TYPE_STRIP_ONLY: '1' })
      const [, total, pass] = /^# \{ total: (\d+), pass: (\d+) \}/m.exec(output) ?? []
      t.ok(Number(total) > 0 && total === pass, `Fastify ${version}, ${file}: ${pass} of ${total}`)
    }
  }
})
