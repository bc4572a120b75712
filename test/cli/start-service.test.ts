import { createRequire } from 'node:module'
import { join } from 'node:path'
import t from 'tap'
import { startService, type Listening } from '../../cli/start-service.ts'
import { root } from '../helpers/documents.ts'

const { cache, resolve } = createRequire(import.meta.url)
const started: string[][] = []
// A real start listens until a signal ends the process: see test/programs.
const name = resolve('fastify-cli/start.js')
cache[name] = { exports: { start: async (args: string[]) => started.push(args) } } as unknown as NodeModule

t.test('fastify-cli gets the compiled service, and where it listens if that is said.', async t => {
  const service = ['-c', join(root, 'dist', 'start-options.js'), join(root, 'dist', 'app.js')]
  const given: Array<[where: Listening, args: string[]]> = [
    [{}, []],
    [{ port: '8080' }, ['-p', '8080']],
    [{ address: '::1' }, ['-a', '::1']],
    [{ port: '0', address: '127.0.0.1' }, ['-p', '0', '-a', '127.0.0.1']]
  ]
  for (const [where] of given) await startService(where)
  t.strictSame(started, given.map(([, args]) => [...args, ...service]))
})
