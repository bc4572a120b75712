import { readdirSync } from 'node:fs'
import { join } from 'node:path'

/** What every test file counts towards: the service itself. dev/ and bench/ are tools, and test/ tests. */
const sources = ['lib', 'plugins', 'routes'].flatMap(folder =>
  readdirSync(folder, { recursive: true }).filter(file => file.endsWith('.ts')).map(file => join(folder, file)))

export default () => [...sources, 'holdfast.ts']
