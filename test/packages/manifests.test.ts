import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { TRACING_PACKAGES } from '../../plugins/tracing/tracing.ts'
import { pages, root, textOf } from '../helpers/documents.ts'
import { temporaryFolder } from '../helpers/temporary-folder.ts'

type Ranges = Record<string, string>

interface Manifest {
  name: string
  version: string
  license: string
  engines: Ranges
  scripts: Ranges
  dependencies: Ranges
  devDependencies: Ranges
  peerDependencies: Ranges
  peerDependenciesMeta: Record<string, { optional: boolean }>
}

const { PAGES, namePublished } = await import('../../packages/name-published.js' as string) as {
  PAGES: readonly string[],
  namePublished: (text: string) => string
}

const manifestOf = (folder: string) => JSON.parse(textOf(join(folder, 'package.json'))) as Manifest

/** Imported by the service itself, and not only by routes and plugins of one's own. */
function neededBy (folders: readonly string[]) {
  const text = folders.flatMap(folder =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map(name => join(folder, name))
  ).filter(file => file.endsWith('.ts') && !/^(?:plugins\/own|routes\/api)\//.test(file)).map(textOf).join('\n')
  return Object.keys(manifestOf('.').dependencies).filter(name => new RegExp(`'${name}[/']`).test(text))
}

t.test('The packages require the versions that the repository is tested with.', {
  skip: manifestOf('.').name !== 'holdfast' && "a service of one's own has dependencies of its own"
}, async t => {
  const own = manifestOf('.')
  const tested = { ...own.dependencies, ...own.devDependencies }
  t.notOk(own.peerDependencies, 'npm 11 installs no optional peer of package.json, even if it is named: tracing has some')
  for (const folder of ['packages/holdfast', 'packages/holdfast-cli', 'packages/create-holdfast']) {
    const { version, license, engines, scripts, dependencies = {}, peerDependencies = {}, peerDependenciesMeta } =
      manifestOf(folder)
    t.strictSame(
      { version, license, engines },
      { version: own.version, license: own.license, engines: own.engines },
      folder
    )
    for (const [name, range] of Object.entries(dependencies)) t.equal(range, tested[name], `${folder}: ${name}`)
    for (const [name, range] of Object.entries(peerDependencies)) {
      t.ok(name in tested || (TRACING_PACKAGES as readonly string[]).includes(name), `${folder}: ${name}`)
      // npm holds an app to the ranges of optional peers too, even if nothing in the app needs them.
      if (folder === 'packages/holdfast') {
        t.equal(
          range,
          name === 'fastify' ? '^5.0.0 || ^6.0.0-alpha.4' : '*',
          `${folder}: ${name} does not conflict with the version of an app`
        )
      } else t.match(range, /^>=\d+\.\d+ <\d+$/, `${folder}: ${name}`)
    }
    t.strictSame(Object.keys(scripts), ['prepack'], `${folder}: nothing runs when it is installed`)
    t.strictSame(
      Object.keys(peerDependencies).filter(name => !peerDependenciesMeta[name]?.optional),
      []
    )
  }
  const { dependencies } = manifestOf('packages/holdfast-cli')
  t.strictSame(
    neededBy(['cli', 'lib', 'plugins', 'routes', 'server']).filter(name => !(name in dependencies)),
    [],
    'the command brings all that the service needs'
  )
  const guard = manifestOf('packages/holdfast')
  t.strictSame(
    neededBy(['lib', 'plugins', 'routes', 'server']).filter(name =>
      !(name in guard.dependencies) && !(name in guard.peerDependencies)
    ),
    ['get-jwks', 'yaml'],
    'the plugin knows all but what reads files, starts processes, and node:crypto does for it'
  )
  t.ok(Object.keys(guard.dependencies).length <= 7, 'fastify itself needs four of these')
})

t.test('The links of the npm pages lead somewhere: they are absolute, and those to the repository name a file of it.', async t => {
  for (const folder of ['packages/holdfast', 'packages/holdfast-cli', 'packages/create-holdfast']) {
    const { repository } = JSON.parse(textOf(join(folder, 'package.json'))) as {
      repository: { url: string, directory: string }
    }
    t.equal(repository.directory, folder)
    const home = `${repository.url.replace(/^git\+/, '').replace(/\.git$/, '')}/blob/main/`
    const page = textOf(join(folder, 'README.md'))
    const links = [...page.matchAll(/\]\(([^)]+)\)/g)].map(([, link]) => link!)
    t.strictSame(links.filter(link => !link.startsWith('https://')), [], folder)
    const ofRepository = links.filter(link => link.startsWith('https://github.com/'))
    t.strictSame(
      ofRepository.filter(link => !link.startsWith(home) || !existsSync(join(root, link.slice(home.length)))),
      [],
      folder
    )
    if (folder === 'packages/holdfast') t.strictSame(ofRepository, [`${home}docs/guide/plugin.md`])
  }
})

t.test('The files of the forge are valid, and start existing scripts.', async t => {
  const { scripts } = manifestOf('.')
  for (
    const file of readdirSync(join(root, '.github'), { recursive: true, encoding: 'utf8' }).filter(name =>
      name.endsWith('.yml')
    )
  ) {
    t.doesNotThrow(() => parse(textOf(join('.github', file)), { strict: true }), file)
    const named = [...textOf(join('.github', file)).matchAll(/npm run ([\w:]+)/g)].map(([, name]) => name!)
    t.strictSame(named.filter(name => !(name in scripts)), [], file)
  }
  const ci = parse(textOf('.github/workflows/ci.yml')) as {
    jobs: { test: { strategy: { matrix: { node: Array<string | number> } } } }
  }
  t.strictSame(ci.jobs.test.strategy.matrix.node, ['20.19', 22, 24, 26])
  t.match(textOf('.ci/run'), /^nodes=\(20 22 24 26\)$/m)
  const { updates } = parse(textOf('.github/dependabot.yml')) as { updates: Array<{ directories?: string[] }> }
  t.strictSame(updates[0]!.directories!.filter(folder => !existsSync(join(root, folder, 'package.json'))), [])
})

t.test('No page tells people to run a package that is not published.', async t => {
  const unpublished = pages.filter(page => /-\d+\.\d+\.\d+\.tgz/.test(textOf(page)))
  const published = pages.filter(page => /\b(?:npx|npm (?:i|install)) holdfast\b/.test(textOf(page)))
  t.ok(
    unpublished.length === 0 || published.length === 0,
    `either all pages have the tarballs, or all have the names: ${published.join(' ')}`
  )
  t.strictSame(
    unpublished.filter(page => !PAGES.includes(page)),
    [],
    'the release changes each page that names a tarball'
  )
  const { version } = manifestOf('packages/holdfast')
  for (const page of unpublished) {
    for (const [name, named] of textOf(page).matchAll(/(?:create-)?holdfast(?:-cli)?-(\d+\.\d+\.\d+)\.tgz/g)) {
      t.equal(named, version, `${page}: ${name}`)
    }
  }
  for (const page of PAGES) {
    const after = namePublished(textOf(page))
    t.notMatch(after, /\.tgz|npm run package|npm ci # in a clone/, `${page} after the release`)
    t.match(after, /npx -y holdfast-cli (?:start|gate)|npm i holdfast fastify$|^npm create holdfast@latest my-api$/m, page)
  }
  t.match(
    textOf('.github/workflows/release.yml'),
    /- run: node packages\/name-published\.js\n[^]*- run: npm run package\n[^]*- run: \.ci\/release\/publish [^]*needs: publish\n[^]*- run: \.ci\/release\/docs\n/
  )
})

t.test('Without the compiler, packing says in a sentence what to install.', async t => {
  // Outside of the clone, where no package is found further up.
  const folder = temporaryFolder(t, 'pack')
  copyFileSync(join(root, 'packages/build.js'), join(folder, 'build.mjs'))
  const { status, stderr } = spawnSync(process.execPath, ['build.mjs'], { cwd: folder, encoding: 'utf8' })
  t.equal(status, 1)
  t.equal(stderr, 'Not packed: the compiler is not installed. npm ci --include=dev installs it.\n')
})
