import t from 'tap'
import { readAnswer } from '../../../../lib/guard/provider/provider-document.ts'
import { ProviderFailure } from '../../../../lib/guard/provider/provider-failure.ts'

const answer = { status: 200, body: Buffer.from('{}'), facts: { url: 'https://tenant.example/keys', status: 200 } }

t.test('A failure says which answer it is about, and any other error is left as it is.', async t => {
  const failureOf = (given: typeof answer, read: () => number) =>
    readAnswer(given, read).catch((error: unknown) => error)
  const fault = new TypeError('a fault of ours')
  t.equal(await failureOf(answer, () => 2), 2)
  t.hasStrict(
    await failureOf(answer, () => {
      throw new ProviderFailure('not_json')
    }),
    { word: 'not_json', facts: answer.facts }
  )
  t.equal(
    await failureOf(answer, () => {
      throw fault
    }),
    fault
  )
  t.hasStrict(await failureOf({ ...answer, status: 404 }, () => 2), { word: 'status', detail: 404 })
})
