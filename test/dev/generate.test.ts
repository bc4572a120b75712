import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { GENERATED } from '../../dev/generate/files.ts'
import { root } from '../helpers/documents.ts'

for (const [file, make] of Object.entries(GENERATED)) {
  t.test(`${file} is what the code makes: npm run generate writes it.`, async t => {
    const text = readFileSync(join(root, file), 'utf8')
    t.equal(text, make(text))
  })
}
