import fc from 'fast-check'
import t, { type Test } from 'tap'
import { REFUSALS } from '../../lib/refusal.ts'
import { startApp, type RunningApp } from '../helpers/app.ts'
import { parseChallenges } from '../helpers/challenges.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { linesOf, signedMutations, textMutations, type Good, type Mutation } from '../helpers/mutations.ts'
import { sendRaw, type WireAnswer } from '../helpers/wire.ts'

/** The same inputs in every run; another seed by the environment, to search further. */
const SEED = Number(process.env['FC_SEED'] ?? 9449)
const RUNS = Number(process.env['FC_RUNS'] ?? 40)
t.comment(`seed ${SEED}, ${RUNS} runs for each property`)

interface Bench {
  readonly running: RunningApp
  /** A request that passes, with a proof of its own. */
  good (): Good
}

async function prepare (t: Test): Promise<Bench> {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer)
  const client = await createDpopClient()
  const token = issuer.token({ cnf: { jkt: client.jkt } })
  const host = new URL(running.url).host
  const path = '/api/private'
  const remake: Good['remake'] = (token, header = {}, claims = {}) =>
    client.proof({ token, url: `http://${host}${path}`, header, claims })
  return { running, good: () => ({ issuer, client, host, path, token, proof: remake(token), remake }) }
}

const ERRORS: ReadonlySet<unknown> = new Set(Object.values(REFUSALS).map(({ error }) => error))
const DESCRIPTIONS: ReadonlySet<unknown> = new Set(Object.values(REFUSALS).map(({ description }) => description))
const ALGS = 'ES256 ES384 EdDSA Ed25519 PS256 RS256'

/** Every header that an answer may have, and all that it may hold: no byte of a request fits in. */
const HEADERS: Record<string, RegExp> = {
  'cache-control': /^no-store$/,
  'content-type': /^application\/json; charset=utf-8$/,
  'content-length': /^\d{2,3}$/,
  date: /^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/,
  connection: /^close$/,
  'www-authenticate': /^(?:Bearer|DPoP)/
}

/** Says what is wrong with a refusal, or nothing. */
function fault ({ status, lines, headers, body }: WireAnswer, isHead: boolean): string | undefined {
  if (![400, 401, 403, 404, 431].includes(status)) return `the status is ${status}`
  const unknown = lines.find(([name, value]) => !HEADERS[name]?.test(value))
  if (unknown) return `a header is ${JSON.stringify(unknown)}`
  if (new Set(lines.map(([name]) => name)).size !== lines.length) return 'a header appears twice'
  const value = headers['www-authenticate']
  if ((status === 401 || status === 403) !== (value !== undefined)) return `the challenge of ${status} is ${value}`
  for (
    const { parameters: { algs, error, error_description: description, ...rest }, scheme } of value === undefined
      ? []
      : parseChallenges(value)
  ) {
    if (algs !== (scheme === 'DPoP' ? ALGS : undefined) || Object.keys(rest).length > 0) {
      return `the challenge is ${value}`
    }
    if (error !== undefined && !(ERRORS.has(error) && DESCRIPTIONS.has(description))) return `the challenge is ${value}`
  }
  if (isHead) return body === '' ? undefined : 'HEAD has a body'
  const { statusCode, error, message, ...rest } = JSON.parse(body)
  return statusCode === status && typeof error === 'string' && typeof message === 'string' &&
      Object.keys(rest).length === 0
    ? undefined
    : `the body is ${body}`
}

async function expectOnlyTheUnmutatedPasses (t: Test, mutations: fc.Arbitrary<Mutation>): Promise<void> {
  const { running, good } = await prepare(t)
  const property = fc.asyncProperty(mutations, async mutation => {
    const original = good()
    const lines = mutation.apply(original)
    const wrong = fault(await sendRaw(running.url, lines), lines[0]!.startsWith('HEAD '))
    if (wrong) throw new Error(wrong)
    const { status } = await sendRaw(running.url, linesOf(original))
    if (status !== 200) throw new Error(`the unmutated request is answered ${status}`)
  })
  await t.resolves(fc.assert(property, { seed: SEED, numRuns: RUNS }))
  t.strictSame(running.log.filter(({ level }) => level >= 50), [], 'no fault in the log')
}

t.test(
  'A request whose text was changed in one place is refused in due form, and the same request unchanged passes ' +
    'after it',
  t => expectOnlyTheUnmutatedPasses(t, textMutations)
)

t.test(
  'A header member or claim that is not as it must be is refused though it is well signed, and the proper one ' +
    'passes after it',
  t => expectOnlyTheUnmutatedPasses(t, signedMutations)
)

t.test('Any bytes in place of a request are answered 400, and the next request is served', async t => {
  const { running, good } = await prepare(t)
  const noise = fc.string({
    unit: fc.integer({ min: 0, max: 255 }).map(code => String.fromCharCode(code)),
    maxLength: 100
  })
  await t.resolves(fc.assert(
    fc.asyncProperty(noise, async bytes => {
      // A line break at the start is skipped by the parser, which then waits for more.
      const answer = await sendRaw(running.url, [`"${bytes}`])
      if (answer.status !== 400 || fault(answer, false)) throw new Error(`${answer.status} ${fault(answer, false)}`)
    }),
    { seed: SEED, numRuns: RUNS }
  ))
  t.equal((await sendRaw(running.url, linesOf(good()))).status, 200)
})
