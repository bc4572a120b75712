import { execFile } from 'node:child_process'
import { copyFileSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { root } from './documents.ts'
import { temporaryFolder } from './temporary-folder.ts'

/** Apps of other people, in folders outside the repository, with the package as npm installs it. */

/** The environment, without what tap and its runner put there for tests. */
export const outsideEnv: NodeJS.ProcessEnv = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^(?:NODE_OPTIONS|FORCE_COLOR|_?TAP.*)$/.test(name))
)

interface Outcome {
  code: number | null
  output: string
}

/** How the program ends, and all that it writes. */
export async function run (
  cwd: string,
  command: string,
  args: readonly string[],
  more: NodeJS.ProcessEnv = {}
): Promise<Outcome & { stdout: string }> {
  const options = { cwd, env: { ...outsideEnv, ...more }, maxBuffer: 1 << 26 }
  try {
    const { stdout, stderr } = await promisify(execFile)(command, args, options)
    return { code: 0, stdout, output: stdout + stderr }
  } catch (error) {
    const { code, stdout = '', stderr = '' } = error as { code: number, stdout?: string, stderr?: string }
    return { code, stdout, output: stdout + stderr }
  }
}

/** What the program writes to stdout. Rejects with all that it wrote if it fails. */
export async function expectSuccess (
  cwd: string,
  command: string,
  args: readonly string[],
  more: NodeJS.ProcessEnv = {}
): Promise<string> {
  const { code, stdout, output } = await run(cwd, command, args, more)
  if (code !== 0) throw new Error(`${command} ${args.join(' ')}\n${output}`)
  return stdout
}

export const install = (cwd: string, ...packages: string[]): Promise<string> =>
  expectSuccess(cwd, 'npm', ['i', '--no-audit', '--no-fund', '--prefer-offline', ...packages])

/** A copy of the repository, to pack from: files that run at once would write each other's. */
export async function copyRepository (folder: string): Promise<string> {
  const clone = join(folder, 'holdfast')
  mkdirSync(clone)
  const files = (await expectSuccess(root, 'git', ['ls-files', '-co', '--exclude-standard'])).trim().split('\n')
  for (const file of files) {
    mkdirSync(join(clone, file, '..'), { recursive: true })
    copyFileSync(join(root, file), join(clone, file))
  }
  symlinkSync(join(root, 'node_modules'), join(clone, 'node_modules'))
  return clone
}

interface Packed {
  folder: string
  tarball: string
  /** Writes a project with these files. The name may lead to a folder below. */
  project (name: string, files: Record<string, string>): string
}

export function projectsIn (folder: string): Packed['project'] {
  return (name, files) => {
    const cwd = join(folder, name)
    mkdirSync(cwd, { recursive: true })
    for (
      const [file, text] of Object.entries({
        'package.json': JSON.stringify({ name: name.replaceAll('/', '-'), private: true, type: 'module' }),
        ...files
      })
    ) {
      mkdirSync(join(cwd, file, '..'), { recursive: true })
      writeFileSync(join(cwd, file), text)
    }
    return cwd
  }
}

/**
 * Packs the packages into a folder, from files that may be written there: a copy, or the repository if all is quiet.
 * `.ci/run` has packed them already, into the folder that PACKED names.
 * @returns the path of each, by its name
 */
export async function pack (from: () => string | Promise<string>, into: string): Promise<Record<string, string>> {
  const names = ['holdfast', 'holdfast-cli', 'create-holdfast']
  const packed = process.env['PACKED']
  if (packed === undefined) {
    await expectSuccess(await from(), 'npm', [
      'pack',
      ...names.map(name => `./packages/${name}`),
      '--pack-destination',
      into
    ])
  } else {
    const files = readdirSync(packed).filter(file => file.endsWith('.tgz'))
    for (const file of files) copyFileSync(join(packed, file), join(into, file))
  }
  const files = readdirSync(into)
  return Object.fromEntries(names.map(name =>
    [name, join(into, files.find(file => new RegExp(`^${name}-\\d`).test(file))!)]
  ))
}

/** Packs `holdfast` into a folder of its own, which goes at the end. */
export async function packHoldfast (t: Test): Promise<Packed> {
  const folder = temporaryFolder(t, 'matrix')
  const { holdfast } = await pack(() => copyRepository(folder), folder)
  return { folder, tarball: holdfast!, project: projectsIn(folder) }
}

/** Six requests, with nonces required: one is accepted. */
const PROBES = `
  const idp = await createTestIssuer()
  const app = Fastify()
  await app.register(holdfast, { ...idp.options, dpop: { nonce: 'required' } })
  app.get('/', { onRequest: app.requireScope('a') }, request => request.user.sub)
  const client = await idp.dpopClient({ scope: 'a' })
  const results = [await client.inject(app, '/'), await client.replay(app, '/'), await client.stolen(app, '/'), await app.inject('/')]
  for (const token of [await idp.expiredToken(), await idp.wrongKeyToken()]) results.push(await app.inject({ url: '/', headers: { authorization: 'Bearer ' + token } }))
  console.log(...results.map(({ statusCode }) => statusCode))
  await app.close()
`
export const ESM = "import Fastify from 'fastify'\nimport holdfast from 'holdfast'\nimport { createTestIssuer } from " +
  `'holdfast/testing'\n${PROBES}`
export const CJS =
  "const Fastify = require('fastify')\nconst holdfast = require('holdfast')\nconst { createTestIssuer } = " +
  `require('holdfast/testing')\nasync function main () {${PROBES}}\nmain()`
/** What they print. */
export const ANSWERS = /^200 401 401 401 401 401$/m
