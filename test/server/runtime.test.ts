import t from 'tap'
import holdfast from '../../packages/holdfast/index.ts'
import { createTestIssuer } from '../../packages/holdfast/testing.ts'
import { checkRuntime } from '../../server/runtime.ts'
import { createApp } from '../helpers/app.ts'

t.test('Bun stops the start with a sentence.', async t => {
  t.throws(() => checkRuntime({ ...process.versions, bun: '1.3.0' }), {
    message: /^Holdfast does not run on Bun: .* Run the app on Node\.js 20\.19 or newer\.$/
  })
  t.doesNotThrow(() => checkRuntime(process.versions), 'the twin: Node')
})

t.test('The start warns of a Fastify with known weaknesses, once, and of no other.', async t => {
  const { options } = await createTestIssuer()
  const warningsWith = async (version: string) => {
    const lines: string[] = []
    const app = createApp(t, { logger: { level: 'warn', stream: { write: line => { lines.push(line) } } } })
    Object.defineProperty(app, 'version', { value: version })
    await app.register(holdfast, options)
    await app.ready()
    return lines.map(line => (JSON.parse(line) as { msg: string }).msg).filter(msg => msg.startsWith('Fastify '))
  }
  for (const version of ['5.0.0', '5.9.0', '5.12.1']) {
    t.strictSame(await warningsWith(version), [
      `Fastify ${version} has known weaknesses, CVE-2026-16732 among them. Update it to 5.12.2 or newer`
    ])
  }
  for (const version of ['5.12.2', '5.12.10', '5.13.0', '6.0.0-alpha.4']) t.strictSame(await warningsWith(version), [], version)
})
