import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { NAMED_BY, PROTOCOL_METHODS } from '../../../lib/gate/mcp-methods.ts'

/** The modules of a package, as it was published. */
function readModules (name: string) {
  const folder = dirname(fileURLToPath(import.meta.resolve(name)))
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(file => /\.m?js$/.test(file))
  return files.map(file => readFileSync(join(folder, file), 'utf8')).join('\n')
}

const newest = ['@modelcontextprotocol/client', '@modelcontextprotocol/core'].map(readModules).join('\n')
const older = readModules('@modelcontextprotocol/sdk/types.js')

t.test('What Mcp-Name repeats is what the newest SDK has in its own table.', async t => {
  const [, rows] = /const MCP_NAME_HEADER_SOURCE = (\{[^}]*\})/.exec(newest)!
  t.strictSame(Object.fromEntries(NAMED_BY), JSON.parse(rows!))
})

t.test('The methods of the protocol are those of both SDKs, and the one that only their table has.', async t => {
  const methodsIn = (text: string) =>
    [...text.matchAll(/\bmethod: z\d?\.literal\(["']([^"']+)["']\)/g)].map(([, method]) => method!)
  const known = new Set([...methodsIn(newest), ...methodsIn(older), 'tasks/update'])
  t.ok(methodsIn(newest).includes('server/discover') && methodsIn(older).includes('initialize'))
  t.strictSame([...PROTOCOL_METHODS].sort(), [...known].sort())
})
