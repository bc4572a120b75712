import { readdirSync } from 'node:fs'
import { load } from '../cli/strip-types.js'

/**
 * Blanks out the types of all files that `npm test` loads, once, while the compiler makes `dist/`: on a new clone each
 * process of the tests would load the compiler for it.
 */
const root = new URL('../', import.meta.url)
const NONE = /^(?:\.|node_modules|dist|bench\/|lab\/|test\/(?:m|programs|system|types))|\/(?:node_modules|dist)\/|\.d\.ts$/

if (!process.features.typescript) {
  for (const folder of readdirSync(root, { withFileTypes: true })) {
    const files = folder.isDirectory() && !NONE.test(folder.name)
      ? readdirSync(new URL(folder.name, root), { recursive: true }).map(file => `${folder.name}/${file}`)
      : [folder.name]
    for (const file of files) if (file.endsWith('.ts') && !NONE.test(file)) await load(new URL(file, root).href)
  }
}
