import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { root } from '../../cli/tenants.ts'
import { GENERATED } from './files.ts'

// `npm run generate` writes what follows from the code; with `--check` it only names the files that differ.
const { values: { check } } = parseArgs({ options: { check: { type: 'boolean', default: false } } })

for (const [file, make] of Object.entries(GENERATED)) {
  const path = join(root, file)
  const text = readFileSync(path, 'utf8')
  const made = make(text)
  if (made === text) continue
  if (check) process.exitCode = 1
  else writeFileSync(path, made)
  console.log(check ? `${file} differs: npm run generate writes it` : `${file} is written`)
}
