#!/usr/bin/env node
/**
 * Writes a project whose routes Holdfast guards: `npm create holdfast@latest my-api`. The files are those of template/,
 * with the name of the project for `my-api`.
 */
import {
  copyFileSync,
  cpSync,
  existsSync,
  readFileSync,
  readdirSync,
  renameSync,
  statSync,
  writeFileSync
} from 'node:fs'
import { basename, join, relative, resolve } from 'node:path'
import { parseArgs } from 'node:util'

const USAGE = `Writes an API of your own on Holdfast into a new folder.

  npm create holdfast@latest my-api             in TypeScript
  npm create holdfast@latest my-api -- --js     in JavaScript
  npm create holdfast@latest my-api -- --gate   before a service in any language, by rules in a file

  --packed FOLDER   takes the packages from the files that npm run package has written there`

/** Says why, and ends without writing anything. */
function refuse (why) {
  console.error(`${why}\n\n${USAGE}`)
  process.exit(1)
}

function readArguments () {
  const [js, gate, help] = [{ type: 'boolean' }, { type: 'boolean' }, { type: 'boolean' }]
  try {
    return parseArgs({ options: { js, gate, help, packed: { type: 'string' } }, allowPositionals: true })
  } catch (error) {
    return refuse(error.message)
  }
}

const { values: { js, gate, help, packed }, positionals: [folder, ...more] } = readArguments()
if (help) {
  console.log(USAGE)
  process.exit()
}
// Without -- npm takes an option for its own, and another project would be written.
const kept = ['js', 'gate', 'packed'].find(option => process.env[`npm_config_${option}`] !== undefined)
if (kept !== undefined) refuse(`npm has kept --${kept} for itself. Write -- before the options.`)
if (folder === undefined) refuse('Which folder? Say its name.')
if (more.length > 0) refuse(`One folder, please: ${more.join(' ')} is too much.`)
const target = resolve(folder)
const name = basename(target)
if (!/^[a-z0-9][a-z0-9._-]{0,99}$/.test(name)) {
  refuse(`"${name}" cannot be the name of a package: use small letters, digits, dots and hyphens.`)
}
if (existsSync(target) && (!statSync(target).isDirectory() || readdirSync(target).some(file => file !== '.git'))) {
  refuse(`${folder} is there already, and not an empty folder.`)
}

const { version } = JSON.parse(readFileSync(join(import.meta.dirname, 'package.json'), 'utf8'))
const tarballs = packed === undefined
  ? []
  : ['holdfast', ...gate ? ['holdfast-cli'] : []].map(packageName => [packageName, `${packageName}-${version}.tgz`])
for (const [, file] of tarballs) {
  if (!existsSync(join(packed, file))) refuse(`${join(packed, file)} is not there: npm run package writes it.`)
}

for (const part of ['all', ...gate ? ['gate'] : ['api', js ? 'js' : 'ts']]) {
  cpSync(join(import.meta.dirname, 'template', part), target, { recursive: true })
}
// npm leaves a file of this name out of a package.
renameSync(join(target, '_gitignore'), join(target, '.gitignore'))
for (const path of readdirSync(target, { recursive: true, encoding: 'utf8' })) {
  const file = join(target, path)
  if (/^\.git(?:$|[\\/])/.test(path) || !statSync(file).isFile()) continue
  writeFileSync(file, readFileSync(file, 'utf8').replaceAll('my-api', name))
}
for (const [packageName, file] of tarballs) {
  copyFileSync(join(packed, file), join(target, file))
  const manifest = join(target, 'package.json')
  const text = readFileSync(manifest, 'utf8')
  writeFileSync(manifest, text.replace(`"${packageName}": "^${version}"`, `"${packageName}": "file:${file}"`))
}

const path = relative('', target)
console.log(`${name} is written.${path === '' ? '' : ` Next:\n\n  cd ${/^[\w./-]+$/.test(path) ? path : `"${path}"`}`}\n  npm install\n  npm test`)
