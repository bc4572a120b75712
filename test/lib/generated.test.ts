import t from 'tap'
import { GENERATED } from '../../dev/generate/files.ts'
import { textOf } from '../helpers/documents.ts'

for (const [file, make] of Object.entries(GENERATED)) {
  t.test(`${file} is what the code makes: npm run generate writes it.`, async t => {
    const text = textOf(file)
    t.equal(text, make(text))
  })
}
