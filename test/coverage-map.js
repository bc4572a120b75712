import { readdirSync } from 'node:fs'
import { join } from 'node:path'

/** What every test file counts towards: the service itself, and its checks as they are told. dev/ and bench/ are tools, and test/ tests. */
const sources = ['lib', 'plugins', 'routes', 'schemas', 'server', 'explain'].flatMap(folder =>
  readdirSync(folder, { recursive: true }).filter(file => file.endsWith('.ts')).map(file => join(folder, file)))

export default () => [...sources, 'holdfast.ts']
