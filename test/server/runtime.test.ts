import t from 'tap'
import { checkRuntime } from '../../server/runtime.ts'

t.test('Bun stops the start with a sentence.', async t => {
  t.throws(() => checkRuntime({ ...process.versions, bun: '1.3.0' }), {
    message: /^Holdfast does not run on Bun: .* Run the app on Node\.js 20\.19 or newer\.$/
  })
  t.doesNotThrow(() => checkRuntime(process.versions), 'the twin: Node')
})
