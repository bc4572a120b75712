import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import axe, { type AxeResults } from 'axe-core'
import { chromium, type Browser, type Page } from 'playwright-core'
import { containing } from '../helpers/containing.ts'
import { startFakeRedis } from '../helpers/fake-redis.ts'
import { freePort } from '../helpers/free-port.ts'
import t, { type Test } from 'tap'
import devRoutes from '../../dev/serve/dev-routes.ts'
import { revocationBy } from '../../dev/serve/samples.ts'
import { startPlayground } from '../../dev/serve/playground.ts'
import { startProvider, type LocalProvider } from '../../dev/provider/provider.ts'
import { startTransmitter, type LocalTransmitter } from '../../dev/provider/transmitter.ts'
import { readSettings } from '../../holdfast.ts'
import { STEPS } from '../../cli/explain/steps.ts'
import type { RefusalReason } from '../../lib/refusal.ts'
import type { Variables } from '../helpers/variables.ts'
import { startApp } from '../helpers/app.ts'
import { atAnotherTime } from '../helpers/clock.ts'
import type { Issuer } from '../helpers/issuer.ts'
import { until } from '../helpers/until.ts'

const audience = 'https://holdfast.example/api'
const program = findBrowser()
const skip = program === undefined && 'Chromium is not installed'

function findBrowser () {
  const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']
  const folders = (process.env['PATH'] ?? '').split(delimiter)
  const candidates = [process.env['CHROMIUM_PATH'], ...folders.flatMap(folder => names.map(name => join(folder, name)))]
  return candidates.find(path => path !== undefined && path !== '' && isExecutable(path))
}

function isExecutable (path: string) {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

let browser: Browser
t.before(async () => {
  if (program === undefined) return
  browser = await chromium.launch({
    executablePath: program,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync'
    ]
  })
})
t.teardown(() => browser?.close())

/** Provider, API and page, each on an origin of its own, and a browser that knows nothing yet. */
async function openPlayground (
  t: Test,
  given: Variables | ((provider: LocalProvider) => Variables) = {},
  prepare?: (page: Page) => Promise<void>,
  { transmitter, apiPort }: { transmitter?: LocalTransmitter, apiPort?: number } = {}
) {
  const port = await freePort()
  const origin = `http://localhost:${port}`
  const provider = await startProvider({
    audience,
    redirectUris: [`${origin}/`],
    logoutUri: apiPort === undefined ? undefined : `http://127.0.0.1:${apiPort}/revocation/logout`
  })
  const values = typeof given === 'function' ? given(provider) : given
  const raw: Variables = { IDP_ISSUER: provider.issuer, IDP_AUDIENCE: audience, CORS_ORIGINS: origin, ...values }
  const api = await startApp(
    t,
    { url: provider.issuer } as Issuer,
    raw,
    app => {
      app.register(devRoutes)
    },
    undefined,
    undefined,
    apiPort
  )
  const playground = await startPlayground({
    port,
    api: api.url,
    provider,
    transmitter,
    settings: await readSettings(raw)
  })
  const context = await browser.newContext({ permissions: ['clipboard-read', 'clipboard-write'] })
  const page = await context.newPage()
  const faults: string[] = []
  page.on('pageerror', error => faults.push(error.message))
  // The browser reports every 4xx by itself; those are what the page is for.
  page.on('console', message => {
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) faults.push(message.text())
  })
  t.teardown(async () => {
    await context.close()
    await playground.close()
    await provider.close()
  })
  await prepare?.(page)
  await page.goto(playground.url)
  await ready(page)
  return { page, faults, provider, api, raw }
}

const ready = (page: Page) => page.waitForSelector('body[data-ready="true"]')

async function logIn (page: Page, permissions: string[] = ['read:messages'], user = 'ada') {
  if (!await page.isVisible('#users')) await page.click('#choose summary')
  await page.check(`#users input[value="${user}"]`)
  for (const box of await page.locator('#permissions input').all()) {
    await box.setChecked(permissions.includes(await box.inputValue()))
  }
  // The page leaves for the provider and is loaded anew.
  await page.evaluate('delete document.body.dataset.ready')
  await page.click('#login')
  await ready(page)
}

/** What the page says of the last thing done: its verdict, the reason, and the requests that it took. */
async function press (
  page: Page,
  selector: string
) {
  await page.evaluate("document.querySelector('#result-body').replaceChildren()")
  await page.click(selector)
  const verdict = await page.waitForSelector('#verdict')
  await page.waitForSelector('body:not([aria-busy])')
  const reason = await page.$('#reason')
  return {
    verdict: await verdict.innerText(),
    reason: reason === null ? null : await reason.innerText(),
    checks: await readChecks(page),
    requests: await page.locator('.exchange > summary').allInnerTexts()
  }
}

/** The checks of a request with DPoP whose token is bound to no certificate. */
const CHECKS =
  STEPS.filter(({ name }) =>
    !['certificate', 'token.introspection', 'token.lifetime', 'token.revocation'].includes(name)
  ).length

/** How many checks are shown as passed, folded or not, and the others that were reached. */
async function readChecks (page: Page) {
  const outcomes = await page.locator('#checks li[data-check]').evaluateAll(rows =>
    rows.map(row => `${row.getAttribute('data-check')} ${row.className}`)
  )
  const other = outcomes.filter(outcome => !/ (?:passed|not-reached)$/.test(outcome))
  return { passed: outcomes.filter(outcome => outcome.endsWith(' passed')).length, other }
}

/** What a reader sees when something that runs is looked for again. */
async function lookAgain (page: Page) {
  await page.evaluate("dispatchEvent(new Event('focus'))")
}

const WIDTHS = { wide: { width: 1024, height: 600 }, phone: { width: 390, height: 844 } }

/** Those that the manual shows; `npx tap --snapshot test/system/playground.test.ts` takes them anew. */
const IN_THE_MANUAL: Record<string, string> = {
  'stopped-wide-light': 'playground.png',
  'stopped-phone-dark': 'playground-phone.png',
  'ended-wide-light': 'playground-logged-out.png'
}

/**
 * Looks at a state in each width and scheme: nothing is cut off, and axe finds no barrier (contrast, names for a screen
 * reader). SCREENSHOTS names a folder that gets the pictures.
 */
async function look (t: Test, page: Page, state: string, at = 'body') {
  await page.mouse.move(0, 0)
  for (const [width, size] of Object.entries(WIDTHS)) {
    await page.setViewportSize(size)
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
      await page.evaluate(`document.querySelector('${at}').scrollIntoView()`)
      const name = `${state}-${width}-${colorScheme}`
      if ((width === 'phone') === (colorScheme === 'dark')) {
        t.strictSame(await barriersOf(page), [], `${name}: no barrier`)
      }
      t.equal(
        await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth'),
        0,
        `${name}: nothing is cut off`
      )
      const folder = process.env['SCREENSHOTS']
      if (folder !== undefined) await page.screenshot({ path: join(folder, `${name}.png`) })
      if (process.env['TAP_SNAPSHOT'] === '1' && name in IN_THE_MANUAL) {
        await page.screenshot({ path: join(images, IN_THE_MANUAL[name]!) })
      }
    }
  }
  await page.setViewportSize(WIDTHS.wide)
}

/** What axe finds, with the element of each. */
async function barriersOf (page: Page) {
  await page.evaluate(axe.source)
  const { violations } = await page.evaluate<AxeResults>('axe.run()')
  return violations.flatMap(({ id, nodes }) => nodes.map(({ target }) => `${id}: ${target.join(' ')}`))
}

const images = fileURLToPath(new URL('../../docs/images/', import.meta.url))

const call = (path: string) => `[data-path="${path}"]`
const attack = (id: string) => `[data-attack="${id}"]`

t.test('A visitor logs in, and each endpoint answers as its guard says.', { skip }, async t => {
  const { page, faults, api } = await openPlayground(t)
  const refused = await press(page, call('/api/private'))
  t.match(refused.verdict, /Refused\.\s*401/)
  t.equal(refused.reason, 'credentials_missing')
  t.strictSame(refused.checks, { passed: 0, other: ['credentials failed'] })
  t.match(await page.innerText('#advice'), containing('Nobody is logged in'), 'advice in the words of the page')
  t.equal(await page.isDisabled(attack('replay')), true)
  t.match(await page.innerText('#attack-note'), containing('Log in first'))
  t.equal(await page.getAttribute('#reference', 'href'), `${api.url}/docs`)
  await look(t, page, 'logged out')
  t.match(await page.innerText('#result'), containing('credentials_missing'))

  await logIn(page)
  t.match(
    await page.innerText('#login-state'),
    /Logged in as Ada until \d+ \w+ 20\d\d, \d\d:\d\d\.\s+Permissions: read:messages\./
  )
  t.equal(page.url().includes('code='), false, 'the code is taken out of the address')
  const accepted = await press(page, call('/api/private'))
  t.match(accepted.verdict, /Accepted\.\s*200/)
  t.strictSame(accepted.checks, { passed: CHECKS, other: [] })
  t.match(await page.innerText('#checks'), containing(`All ${CHECKS} checks passed`))
  t.equal(await page.isVisible('[data-check="proof.htu"]'), false, 'what passed is folded')
  await page.click('#checks summary')
  t.match(
    await page.innerText('[data-check="proof.htu"] dl'),
    /htu\s+http:\S+\/api\/private\s+URL of the request\s+http:\S+\/api\/private/
  )
  t.match(JSON.parse(await page.innerText('#answer')), { message: String }, 'the body of the answer stands at the top')
  await look(t, page, 'accepted')
  await page.click('.exchange button')
  await page.waitForSelector('.exchange button:text-is("Copied")')
  t.match(
    await page.evaluate('navigator.clipboard.readText()'),
    /^curl -i 'http:\S+\/api\/private' .*-H 'authorization: DPoP ey\S+' -H 'dpop: ey/
  )
  t.match((await press(page, call('/api/private-scoped'))).verdict, /Accepted\.\s*200/)
  const open = await press(page, call('/api/public'))
  t.match(open.verdict, /Accepted\.\s*200/)
  t.strictSame(open.checks, { passed: 0, other: [] })
  t.match(await page.innerText('#checks'), /no guard/)
  const admin = await press(page, call('/api/admin'))
  t.match(admin.verdict, /Refused\.\s*403/)
  t.equal(admin.reason, 'scope_missing')
  t.match(
    await page.innerText('#checks'),
    /^The check that failed\n[^]*requirement failed[^]*passed before it/,
    'it comes first'
  )
  t.equal(await page.isVisible('[data-check="requirement"] dl'), true)
  t.match(await page.innerText('#advice'), containing('The token lacks a permission'))
  await look(t, page, 'refused')
  t.equal(
    await page.innerText('#widen'),
    'Log in as Ada with admin',
    'a 403 has a button that logs in with what is missing'
  )
  t.strictSame(admin.checks, { passed: CHECKS - 1, other: ['requirement failed'] })

  await logIn(page, ['admin', 'read:users'])
  t.match((await press(page, call('/api/admin'))).verdict, /Accepted\.\s*200/)
  t.match((await press(page, call('/api/users'))).verdict, /Accepted\.\s*200/)
  t.equal((await press(page, call('/api/private-scoped'))).reason, 'scope_missing')

  await logIn(page, ['read:messages', 'admin'], 'grace')
  t.match(
    await page.innerText('#login-state'),
    /Logged in as Grace [^]*Permissions: read:messages\. Grace does not have admin/
  )
  t.strictSame(
    await page.locator('#login-form input:checked').evaluateAll(all => all.map(one => one.getAttribute('value'))),
    ['grace', 'read:messages', 'admin'],
    'the form has what was asked for, so that "Log in again" is for the same user'
  )
  t.equal((await press(page, call('/api/admin'))).reason, 'scope_missing')
  t.match((await press(page, call('/api/private-scoped'))).verdict, /Accepted/)
  await page.clock.setFixedTime(Date.now() + 2 * 86_400_000)
  await lookAgain(page)
  await page.waitForSelector('text=Grace was logged in until')
  t.match(await page.innerText('#attack-note'), containing('The token has expired'))
  t.equal(await page.isDisabled(attack('replay')), true)
  t.strictSame(faults, [])
})

t.test('A route that requires a login of the last minute refuses an older one, and one button gets such a login.', {
  skip
}, async t => {
  const { page, faults } = await openPlayground(t)
  await atAnotherTime(-120, () => logIn(page))
  t.match((await press(page, call('/api/private'))).verdict, /Accepted\.\s*200/)
  t.equal(await page.locator('#step-up').count(), 0)
  const refused = await press(page, call('/dev/recent-login'))
  t.match(refused.verdict, /Refused\.\s*401/)
  t.equal(refused.reason, 'authentication_too_old')
  t.strictSame(refused.checks, { passed: CHECKS - 1, other: ['requirement failed'] })
  await look(t, page, 'old-login')
  const thumbprint = await page.innerText('#thumbprint')
  await page.evaluate('delete document.body.dataset.ready')
  await page.click('#step-up')
  await ready(page)
  t.match(
    await page.innerText('#login-state'),
    /Logged in as Ada[^]*Permissions: read:messages\./,
    'the same user, with the same permissions'
  )
  t.equal(await page.innerText('#thumbprint'), thumbprint)
  const recent = await press(page, call('/dev/recent-login'))
  t.match(recent.verdict, /Accepted\.\s*200/)
  t.strictSame(
    recent.checks,
    { passed: CHECKS - 1, other: ['requirement not-checked'] },
    'what a route outside routes/api needs, only the service knows'
  )
  t.strictSame(faults, [])
})

/** A playground with a transmitter, whose provider logs out over the back channel. */
async function openWithRevocation (t: Test) {
  const apiPort = await freePort()
  const transmitter = await startTransmitter({ port: 0, audience })
  t.teardown(() => transmitter.close())
  return openPlayground(
    t,
    ({ issuer }) => ({
      REVOCATION: revocationBy(transmitter.issuer, issuer, audience),
      IDP_CLOCK_TOLERANCE_SECONDS: '40'
    }),
    undefined,
    { transmitter, apiPort }
  )
}

t.test(
  'After a logout the stream ends, and the next call is refused with the event that caused it.',
  { skip },
  async t => {
    const { page, faults, provider } = await openWithRevocation(t)
    t.equal(await page.isDisabled('[data-end="everywhere"]'), true)
    t.match(await page.innerText('#end-note'), containing('Log in first'))
    for (const [end, event] of [['session', 'logout'], ['everywhere', 'session-revoked']] as const) {
      await logIn(page)
      const accepted = await press(page, call('/api/private'))
      t.match(accepted.verdict, /Accepted\.\s*200/, `${end}: a new login passes`)
      t.strictSame(accepted.checks, { passed: CHECKS + 2, other: [] })
      const opened = await press(page, '[data-end="stream"]')
      t.match(opened.verdict, /Accepted\.\s*200/)
      t.strictSame(opened.checks, { passed: CHECKS + 1, other: ['requirement not-checked'] })
      await page.waitForSelector('#stream-line:text-matches("The stream is open: [1-9]")')
      t.equal(await page.innerText('#result h3'), 'Open a stream')
      t.match(await page.innerText('#stream-state'), /The stream is open: [1-9]/, 'beside the button too')
      await page.setViewportSize(WIDTHS.phone)
      t.equal(await isOnTop(page, '#stream-line'), true, 'on a phone nothing covers it')
      await page.setViewportSize(WIDTHS.wide)
      await page.waitForSelector('body:not([aria-busy])')
      t.match((await press(page, '[data-end="stream"]')).verdict, /Already open/)
      if (end === 'everywhere') await look(t, page, 'stream', '#end')
      const ended = await press(page, `[data-end="${end}"]`)
      t.match(ended.verdict, /Ended\.\s*401/)
      t.equal(ended.reason, 'token_revoked')
      t.match(await page.innerText('#login-state'), containing('Ada is logged out.'), `${end}: card 1 says so`)
      t.strictSame(ended.checks.other, ['token.revocation failed'])
      t.match(
        await page.innerText('[data-check="token.revocation"] dl'),
        new RegExp(`revoked by\\s+${event} from ${end === 'session' ? provider.issuer : 'http://localhost:'}`)
      )
      const line = await page.innerText('#stream-line')
      t.match(line, /The API has ended the stream. Events received: [1-9]/, 'above the result of the logout')
      t.equal(await page.innerText('#stream-state'), line)
      if (end === 'everywhere') await look(t, page, 'ended', '#end')
      const next = await press(page, call('/api/private'))
      t.match(next.verdict, /Refused\.\s*401/)
      t.equal(next.reason, 'token_revoked')
      t.match(await page.innerText('#advice'), containing('has been revoked'))
      t.equal(await page.isVisible('#stream-line'), false, 'the line of the stream that is over is gone')
      const again = await press(page, '[data-end="stream"]')
      t.match(again.verdict, /Refused\.\s*401[^]*The access token has been revoked/)
      t.equal(again.reason, 'token_revoked', 'a stream that does not open says why')
      t.match(await page.innerText('#advice'), containing('Log in again'))
    }
    t.strictSame(faults, [])
  }
)

t.test(
  'The key outlives a reload and its private half cannot be read; forgetting ends the session.',
  { skip },
  async t => {
    const { page, faults } = await openPlayground(t)
    await logIn(page)
    const thumbprint = await page.innerText('#thumbprint')
    await page.reload()
    await ready(page)
    t.equal(await page.innerText('#thumbprint'), thumbprint)
    t.match((await press(page, call('/api/private'))).verdict, /Accepted/)
    const exported = await page.evaluate(`import('/store.js')
    .then(({ read }) => read('keys'))
    .then(({ privateKey }) => crypto.subtle.exportKey('jwk', privateKey))
    .then(() => 'exported', ({ name }) => name)`)
    t.equal(exported, 'InvalidAccessError')
    await page.click('#logout')
    await page.waitForSelector('#logout', { state: 'hidden' })
    await page.waitForSelector('#result.empty')
    t.notMatch(await page.innerText('#result'), /Accepted/, 'what the token got goes with it')
    t.match(await page.innerText('#result'), containing('Here you see what was sent'))
    t.equal((await press(page, call('/api/private'))).reason, 'credentials_missing')
    t.strictSame(faults, [])
  }
)

interface Stop {
  reason: RefusalReason
  check: string
}

/** By which check an attack is stopped, or null if it goes through; `withNonces` if that differs. */
const ATTACKS: ReadonlyArray<{ id: string, stop: Stop | null, withNonces?: Stop }> = [
  { id: 'replay', stop: { reason: 'proof_replayed', check: 'proof.replay' } },
  { id: 'bearer', stop: { reason: 'token_bound', check: 'scheme' } },
  { id: 'key', stop: { reason: 'jkt_mismatch', check: 'proof.jkt' } },
  { id: 'method', stop: { reason: 'htm_mismatch', check: 'proof.htm' } },
  { id: 'url', stop: { reason: 'htu_mismatch', check: 'proof.htu' } },
  {
    id: 'time',
    stop: { reason: 'iat_too_old', check: 'proof.iat' },
    withNonces: { reason: 'nonce_missing', check: 'proof.nonce' }
  },
  { id: 'ath', stop: { reason: 'proof_claim_invalid', check: 'proof.claims' } },
  { id: 'nonce', stop: null, withNonces: { reason: 'nonce_missing', check: 'proof.nonce' } }
]

t.test('Each attack is stopped by a check of its own, which is shown by name.', { skip }, async t => {
  const { page, faults } = await openPlayground(t)
  await logIn(page)
  t.match(
    (await press(page, call('/api/private'))).verdict,
    /Accepted/,
    'the good request, from which each differs in one thing'
  )
  for (const { id, stop } of ATTACKS) {
    const shown = await press(page, attack(id))
    if (stop === null) {
      t.match(shown.verdict, /Nothing to stop\.\s*200[^]*DPOP_NONCE=required/, id)
      t.equal(await page.locator('.verdict.bad').count(), 0, 'nothing is wrong, so nothing is red')
      t.strictSame(shown.checks.other, [], id)
    } else {
      t.match(shown.verdict, /Stopped\.\s*401/, id)
      t.equal(shown.reason, stop.reason, id)
      t.strictSame(shown.checks.other, [`${stop.check} failed`], id)
      const numbers = (await page.locator('#checks summary').allInnerTexts()).join('. ')
      t.notMatch(numbers, /\b1 checks|\b[02-9] check |1 check were/, `${id}: ${numbers}`)
      if (id === 'bearer') t.match(numbers, containing('1 check was not reached'))
      if (id === 'key') await look(t, page, 'stopped', 'section[aria-labelledby="attack-title"]')
    }
  }
  t.strictSame(faults, [])
})

t.test('An attack that is refused for another reason does not count as stopped.', { skip }, async t => {
  const { page } = await openPlayground(t, { IDP_AUDIENCE: 'https://another.example/api' })
  await logIn(page)
  for (const { id } of ATTACKS) {
    const { verdict, reason } = await press(page, attack(id))
    t.match(
      verdict,
      ['replay', 'method', 'url'].includes(id)
        ? /^\S+ The attack did not start\.\s*401/
        : /^\S+ Refused for another reason\.\s*401/,
      id
    )
    t.equal(reason, 'token_audience', id)
    t.equal(await page.locator('.verdict.good, .lesson:not(#advice)').count(), 0, id)
  }
  await look(t, page, 'another-reason')
})

t.test('The page of the provider asks who logs in.', { skip }, async t => {
  const { page, provider } = await openPlayground(t)
  const origin = new URL(page.url()).origin
  const query = new URLSearchParams({
    client_id: provider.browserClientId,
    response_type: 'code',
    scope: 'openid',
    redirect_uri: `${origin}/`,
    code_challenge: 'a'.repeat(43),
    code_challenge_method: 'S256'
  })
  await page.goto(`${provider.issuer}/authorize?${query}`)
  await look(t, page, 'choose-user')
  await page.click('text=Grace')
  await page.waitForURL(`${origin}/**`)
})

t.test('The page of the API has no barrier either.', { skip }, async t => {
  const { page, faults, api } = await openPlayground(t)
  await page.goto(`${api.url}/docs`)
  await look(t, page, 'docs')
  t.strictSame(faults, [])
})

t.test('With DPoP switched off there is nothing to attack, and the page says so.', { skip }, async t => {
  const { page } = await openPlayground(t, { IDP_DPOP_MODE: 'DISABLED' })
  await logIn(page)
  t.match((await press(page, call('/api/private'))).verdict, /Accepted\.\s*200/)
  t.equal(await page.isDisabled(attack('bearer')), true)
  t.match(await page.innerText('#attack-note'), containing('DPoP is switched off'))
})

t.test('An API that does not answer is named, and comes back without a reload.', { skip }, async t => {
  const { page, api, raw } = await openPlayground(t)
  await logIn(page)
  await page.route('**/api/private', route => route.abort())
  const cut = await press(page, call('/api/private'))
  t.match(cut.verdict, /No answer\.\s+The API at http:\S+ does not answer[^]*terminal/)
  t.strictSame(cut.checks, { passed: 0, other: [] })
  await look(t, page, 'no-answer')
  await page.unroute('**/api/private')
  api.app.server.closeAllConnections()
  await api.app.close()
  await lookAgain(page)
  await page.waitForSelector('#state:not([hidden])')
  t.match(await page.innerText('#state'), containing(`The API at ${api.url} does not answer`))
  t.match(await page.innerText('#state'), /Look at the terminal in which npm run dev runs/)
  for (const selector of [call('/api/public'), attack('replay')]) t.equal(await page.isDisabled(selector), true)
  t.match(await page.innerText('#attack-note'), containing('The API does not answer'))
  await look(t, page, 'api-down')
  const again = await startApp(t, { url: '' } as Issuer, raw)
  await page.route(`${api.url}/**`, route => route.continue({ url: route.request().url().replace(api.url, again.url) }))
  await page.waitForSelector('#state', { state: 'hidden' })
  t.equal(await page.isEnabled(call('/api/public')), true)
  await page.route('**/config.json', route => route.abort())
  await lookAgain(page)
  await page.waitForSelector('#state:not([hidden])')
  t.match(
    await page.innerText('#state'),
    containing(`The server of this page at ${new URL(page.url()).origin} does not answer`)
  )
})

t.test('A provider that does not answer is named, and no meaningless check is shown.', { skip }, async t => {
  const { page, provider, api, raw } = await openPlayground(t)
  await logIn(page)
  t.match((await press(page, call('/api/private'))).verdict, /Accepted/)
  await provider.close()
  await lookAgain(page)
  await page.waitForSelector('#state:not([hidden])')
  t.match(
    await page.innerText('#state'),
    containing(`The identity provider at ${provider.issuer} does not answer. Look at the terminal`)
  )
  t.equal(await page.isDisabled('#login'), true)
  t.match((await press(page, call('/api/private'))).verdict, /Accepted/, 'the API still has the keys')
  t.match(await page.innerText('#checks'), /^The checks\n+\d+ checks passed, with keys that were fetched before/)
  const late = await startApp(t, { url: '' } as Issuer, raw)
  await page.route(`${api.url}/**`, route => route.continue({ url: route.request().url().replace(api.url, late.url) }))
  for (const selector of [call('/api/private'), attack('bearer')]) {
    const { verdict, reason, checks } = await press(page, selector)
    t.match(verdict, /Not decided\.\s*503/)
    t.match(
      verdict,
      containing(`The API cannot get the keys of the identity provider at ${provider.issuer}. Look at the terminal`)
    )
    t.equal(reason, 'keys_unavailable')
    t.strictSame(checks, { passed: 0, other: [] })
    t.notMatch(await page.innerText('#result'), /passed/)
  }
  await look(t, page, 'provider-down')
})

t.test('A login that gets no answer names the requested address.', { skip }, async t => {
  const { page, provider } = await openPlayground(t)
  const discovery = `${provider.issuer}/.well-known/openid-configuration`
  const path = `${provider.issuer}/oauth/token`
  await page.route(path, route => route.abort())
  await logIn(page)
  t.match(await page.innerText('#verdict'), containing('The login failed'))
  t.match(
    await page.innerText('#verdict'),
    containing(
      `${path} did not answer, or did not let this page read its answer. Look at the terminal in which npm run ` +
        'dev runs.'
    )
  )
  await page.unroute(path)
  await page.route(discovery, route => route.abort())
  await page.click('#login')
  await until(
    'the login fails',
    () => page.evaluate("document.querySelector('#verdict')?.innerText.includes('did not start') ?? false")
  )
  t.match(
    await page.innerText('#verdict'),
    containing(`${discovery} did not answer, or did not let this page read its answer.`)
  )
  await page.unroute(discovery)
  await logIn(page)
  t.match(
    (await press(page, call('/api/private'))).verdict,
    /Accepted\.\s*200/,
    'the twin: with answers, the login and a call succeed'
  )
})

t.test('A token of a provider that was restarted is dropped, and the page says why.', { skip }, async t => {
  const { page, provider } = await openPlayground(t)
  await logIn(page)
  await page.reload()
  await ready(page)
  t.match(await page.innerText('#login-state'), containing('Logged in as Ada'), 'the same provider changes nothing')
  await provider.close()
  const next = await startProvider({ audience, port: provider.port, redirectUris: [`${new URL(page.url()).origin}/`] })
  t.teardown(() => next.close())
  await page.click(attack('bearer'))
  await page.waitForSelector('#verdict')
  t.match(await page.innerText('#verdict'), /Not sent\.\s+Log in first/)
  t.match(await page.innerText('#login-state'), containing('The token came from a provider that no longer runs'))
  t.equal(await page.isDisabled(attack('bearer')), true)
  await look(t, page, 'dropped')
  await page.reload()
  await ready(page)
  t.match(await page.innerText('#login-state'), containing('Nobody is logged in'))
  await logIn(page)
  t.match(await page.innerText('#login-state'), containing('Logged in as Ada'))
})

t.test('With nonces, good calls fetch theirs and go through, and each attack is stopped.', { skip }, async t => {
  const redis = await startFakeRedis()
  t.teardown(redis.stop)
  // With a common store the playground has the secret too, so it can check nonces.
  const { page, faults } = await openPlayground(t, {
    DPOP_REPLAY: `redis://127.0.0.1:${redis.port}`,
    DPOP_NONCE: 'required',
    DPOP_NONCE_SECRET: Buffer.alloc(32, 7).toString('base64url')
  })
  await logIn(page)
  const first = await press(page, call('/api/private'))
  t.match(first.verdict, /Accepted\.\s*200/)
  t.match(first.requests, [/Request 1.*401/, /Request 2.*200/], 'the nonce comes with the first refusal')
  const second = await press(page, call('/api/private'))
  t.equal(second.requests.length, 1, 'and serves the next call')
  t.strictSame(second.checks, { passed: CHECKS, other: [] })
  for (const { id, stop, withNonces = stop! } of ATTACKS) {
    const shown = await press(page, attack(id))
    t.match(shown.verdict, /Stopped\.\s*401/, id)
    t.equal(shown.reason, withNonces.reason, id)
    t.strictSame(shown.checks.other, [`${withNonces.check} failed`], id)
  }
  t.strictSame(faults, [])
})

t.test('Unreadable parts are reported, and the rest is explained.', { skip }, async t => {
  const { page } = await openPlayground(t)
  const post = async (
    body: string
  ): Promise<
    { status: number, notes?: string[], checks?: Array<{ name: string, outcome: string }>, reason?: string }
  > => {
    const answer = await fetch(new URL('/explain', page.url()), { method: 'POST', body })
    return { status: answer.status, ...await answer.json() as object }
  }
  for (
    const nonsense of [
      '',
      'nonsense',
      'null',
      '[]',
      '{"exchange":5}',
      '{"exchange":{"method":"GET","url":"/api/private"}}'
    ]
  ) {
    t.strictSame(await post(nonsense), {
      status: 200,
      checks: [],
      notes: ['The request cannot be read: it has no method or no URL.']
    }, nonsense)
  }
  const exchange = {
    method: 'GET',
    url: 'http://localhost/api/private',
    sent: { authorization: 'Bearer a.b.c', odd: 5 },
    received: null,
    body: {}
  }
  const partly = await post(JSON.stringify({ exchange, before: [null, 'x'] }))
  t.match(partly.notes, [
    /^The request: a header that was sent is not text/,
    /^Request 1 cannot be read/,
    /^Request 2 cannot be read/
  ])
  t.hasStrict(partly.checks, [{ name: 'credentials', outcome: 'passed' }, { name: 'domain', outcome: 'passed' }, {
    name: 'token.form',
    outcome: 'failed'
  }])
  const large = await post(JSON.stringify({ exchange: { ...exchange, body: 'x'.repeat(2_000_000) } }))
  t.match(large, { status: 413, notes: [/1 MiB/] })
})

t.test('Everything works by keyboard, and the result is announced.', { skip }, async t => {
  const { page, faults } = await openPlayground(t)
  await tabTo(page, 'login')
  await page.keyboard.press('Enter')
  await page.waitForSelector('#logout:not([hidden])')
  await tabTo(page, '/api/private')
  await page.keyboard.press('Space')
  await page.waitForSelector('#verdict')
  t.equal(await focused(page), '/api/private', 'beside the result the focus stays, for the next try')
  t.match(await page.textContent('#announcer'), /^GET \/api\/private: accepted\. The API answered 200 OK\. $/)
  await tabTo(page, 'replay')
  await page.keyboard.press('Enter')
  await page.waitForSelector('#reason')
  t.match(
    await page.textContent('#announcer'),
    /^Replay the proof: stopped\. The API answered 401 Unauthorized\. The DPoP proof has been used before\.$/
  )
  await tabTo(page, 'result')
  t.strictSame(faults, [])
})

/** Whether the middle of an element is in view, and not behind another one. */
const isOnTop = (page: Page, selector: string) =>
  page.evaluate(
    `(({ x, y, width, height }) => document.elementFromPoint(x + width / 2, y + height / 2)?.closest('${selector}') ` +
      `!= null)(document.querySelector('${selector}').getBoundingClientRect())`
  )

const focused = (page: Page) =>
  page.evaluate(
    '(({ id, dataset, tagName }) => id || dataset.path || dataset.attack || tagName)(document.activeElement)'
  )

async function tabTo (page: Page, name: string) {
  for (let presses = 0; presses < 60; presses++) {
    await page.keyboard.press('Tab')
    if (await focused(page) === name) return
  }
  throw new Error(`the tab key does not reach ${name}`)
}

/** What runs in the page is kept as a script: its types are those of a browser. */
