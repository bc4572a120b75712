'use strict'
// Compiles the service into dist/, unless that was made of these sources. `npm start` and `npm run gate` run this
// first. Contents are compared, not times: a checkout, a copy or another clock may leave any time on a file.
require('./check-node.cjs')
const { spawnSync } = require('child_process')
const { createHash } = require('crypto')
const { existsSync, readFileSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } = require('fs')
const { dirname, join } = require('path')

const root = dirname(require.resolve('../package.json'))
const dist = join(root, 'dist')
const CONFIG = 'tsconfig.build.json'
const MARK = '.made-of'

const { include } = JSON.parse(readFileSync(join(root, CONFIG), 'utf8'))
const top = readdirSync(root).filter(name => name.endsWith('.ts'))
const sources = include.flatMap(entry => entry === '*.ts' ? top : filesIn(join(root, entry), entry)).filter(file =>
  /\.[cm]?[jt]sx?$/.test(file)
)
const configuration = ['tsconfig.json', CONFIG].filter(file => existsSync(join(root, file)))
const madeOf = digest(root, [...sources, ...configuration])

// An image has no sources.
if (sources.length > 0 && !isMade()) compile()

/** Whether dist/ holds what was made of these sources, all of it and nothing more. */
function isMade () {
  try {
    return readFileSync(join(dist, MARK), 'utf8') === markOf(dist)
  } catch {
    // It is not there, or another process replaces it at this moment.
    return false
  }
}

function markOf (folder) {
  return `${madeOf}\n${digest(folder, filesIn(folder).filter(file => file !== MARK))}\n`
}

function compile () {
  let compiler
  try {
    compiler = require.resolve('typescript/bin/tsc')
  } catch {
    fail('dist/ was not compiled from these sources, and the compiler is not installed: run npm ci --include=dev.')
  }
  // A process that starts meanwhile finds the whole of the old dist/, or the whole of the new one.
  const fresh = join(root, `.dist-${process.pid}`)
  // `npm run lint` and `npm run dev` judge the types.
  const { status } = spawnSync(
    process.execPath,
    [compiler, '-p', join(root, CONFIG), '--outDir', fresh, '--noCheck', '--noResolve'],
    { stdio: 'inherit' }
  )
  if (status === 0) replace(fresh)
  rmSync(fresh, { recursive: true, force: true })
  if (status !== 0) fail('The sources do not compile.')
}

/** Puts a folder in the place of dist/, which several processes may do at once. */
function replace (fresh) {
  writeFileSync(join(fresh, MARK), markOf(fresh))
  const old = `${fresh}-old`
  for (let left = 20; !isMade(); left--) {
    try {
      if (existsSync(dist)) renameSync(dist, old)
      return renameSync(fresh, dist)
    } catch (error) {
      if (left === 0) throw error
    } finally {
      rmSync(old, { recursive: true, force: true })
    }
  }
}

/** Files below a folder, symbolic links included, as the compiler sees them. */
function filesIn (folder, name = '') {
  const stats = statSync(folder, { throwIfNoEntry: false })
  if (!stats?.isDirectory()) return stats ? [name] : []
  return readdirSync(folder).flatMap(entry => filesIn(join(folder, entry), join(name, entry)))
}

function digest (folder, files) {
  const hash = createHash('sha256')
  for (const file of files.sort()) {
    const text = readFileSync(join(folder, file))
    hash.update(`${file} ${text.length}\n`).update(text)
  }
  return hash.digest('hex')
}

function fail (sentence) {
  process.stderr.write(`${sentence}\n`)
  process.exit(1)
}
