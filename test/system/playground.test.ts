import { accessSync, constants, readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { chromium } from 'playwright-core'
import type { Browser, Page } from 'playwright-core'
import getPort from 'get-port'
import t from 'tap'
import type { Test } from 'tap'
import { startPlayground } from '../../dev/serve/playground.ts'
import { startProvider } from '../../dev/provider/provider.ts'
import { readSettings } from '../../holdfast.ts'
import { STEPS } from '../../explain/steps.ts'
import type { RefusalReason } from '../../lib/refusal.ts'
import type { RawSettings } from '../../lib/settings/specs.ts'
import { startApp } from '../helpers/app.ts'
import type { Issuer } from '../helpers/issuer.ts'

const audience = 'https://holdfast.example/api'
const program = findBrowser()
const skip = program === undefined && 'Chromium is not installed'

function findBrowser (): string | undefined {
  const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']
  const folders = (process.env['PATH'] ?? '').split(delimiter)
  const candidates = [process.env['CHROMIUM_PATH'], ...folders.flatMap((folder) => names.map((name) => join(folder, name)))]
  return candidates.find((path) => path !== undefined && path !== '' && isExecutable(path))
}

function isExecutable (path: string): boolean {
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
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync']
  })
})
t.teardown(() => browser?.close())

/** Provider, API and page, each on an origin of its own, and a browser that knows nothing yet. */
async function openPlayground (t: Test, values: RawSettings = {}): Promise<{ page: Page, faults: string[] }> {
  const port = await getPort()
  const origin = `http://localhost:${port}`
  const provider = await startProvider({ audience, redirectUris: [`${origin}/`] })
  const raw: RawSettings = { IDP_ISSUER: provider.issuer, IDP_AUDIENCE: audience, CORS_ORIGINS: origin, ...values }
  const { url: api } = await startApp(t, { url: provider.issuer } as Issuer, raw)
  const playground = await startPlayground({ port, api, provider, settings: await readSettings(raw) })
  const context = await browser.newContext()
  const page = await context.newPage()
  const faults: string[] = []
  page.on('pageerror', (error) => faults.push(error.message))
  // The browser reports every 4xx by itself; those are what the page is for.
  page.on('console', (message) => {
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) faults.push(message.text())
  })
  t.teardown(async () => {
    await context.close()
    await playground.close()
    await provider.close()
  })
  await page.goto(playground.url)
  await ready(page)
  return { page, faults }
}

const ready = (page: Page): Promise<unknown> => page.waitForSelector('body[data-ready="true"]')

async function logIn (page: Page, permissions: string[] = ['read:messages']): Promise<void> {
  for (const box of await page.locator('#permissions input').all()) {
    await box.setChecked(permissions.includes(await box.inputValue()))
  }
  // The page leaves for the provider and is loaded anew.
  await page.evaluate('delete document.body.dataset.ready')
  await page.click('#login')
  await ready(page)
}

/** What the page says of the last thing done: its verdict, the reason, and the requests that it took. */
async function press (page: Page, selector: string): Promise<{ verdict: string, reason: string | null, checks: ShownChecks, requests: string[] }> {
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

interface ShownChecks { passed: number, other: string[] }

/** How many checks are shown as passed, and the others by name and outcome, both as words. */
async function readChecks (page: Page): Promise<ShownChecks> {
  const rows = await page.locator('#checks li[data-check] > div').allInnerTexts()
  const outcomes = rows.map((row) => /^.+ (\S+) (passed|failed|not checked)$/m.exec(row)?.slice(1).join(' ') ?? row)
  const other = outcomes.filter((outcome) => !outcome.endsWith(' passed'))
  return { passed: outcomes.length - other.length, other }
}

const call = (path: string): string => `[data-path="${path}"]`
const attack = (id: string): string => `[data-attack="${id}"]`

t.test('A visitor logs in, and each endpoint answers as its guard says.', { skip }, async (t) => {
  const { page, faults } = await openPlayground(t)
  const refused = await press(page, call('/api/private'))
  t.match(refused.verdict, /Refused\.\s*401/)
  t.equal(refused.reason, 'credentials_missing')
  t.same(refused.checks, { passed: 0, other: ['credentials failed'] })
  t.equal(await page.isDisabled(attack('replay')), true)

  await logIn(page)
  t.equal(page.url().includes('code='), false, 'the code is taken out of the address')
  const accepted = await press(page, call('/api/private'))
  t.match(accepted.verdict, /Accepted\.\s*200/)
  t.same(accepted.checks, { passed: STEPS.length, other: [] })
  t.match(await page.innerText('#checks-title'), `all ${STEPS.length} passed`)
  t.equal(await page.isVisible('[data-check="proof.htu"] dl'), false)
  await page.check('#show-values')
  t.match(await page.innerText('[data-check="proof.htu"] dl'), /htu\s+http:\S+\/api\/private\s+URL of the request\s+http:\S+\/api\/private/)
  t.match((await press(page, call('/api/private-scoped'))).verdict, /Accepted\.\s*200/)
  t.equal(await page.isVisible('[data-check="scope"] dl'), true, 'the choice lasts')
  const open = await press(page, call('/api/public'))
  t.match(open.verdict, /Accepted\.\s*200/)
  t.same(open.checks, { passed: 0, other: [] })
  t.match(await page.innerText('#checks'), /no guard/)
  const admin = await press(page, call('/api/admin'))
  t.match(admin.verdict, /Refused\.\s*403/)
  t.equal(admin.reason, 'scope_missing')
  t.same(admin.checks, { passed: STEPS.length - 1, other: ['scope failed'] })

  await logIn(page, ['admin', 'read:users'])
  t.match((await press(page, call('/api/admin'))).verdict, /Accepted\.\s*200/)
  t.match((await press(page, call('/api/users'))).verdict, /Accepted\.\s*200/)
  t.equal((await press(page, call('/api/private-scoped'))).reason, 'scope_missing')
  t.same(faults, [])
})

t.test('The key outlives a reload and its private half cannot be read; forgetting ends the session.', { skip }, async (t) => {
  const { page, faults } = await openPlayground(t)
  await logIn(page)
  const thumbprint = await page.innerText('#login-state code')
  await page.reload()
  await ready(page)
  t.equal(await page.innerText('#login-state code'), thumbprint)
  t.match((await press(page, call('/api/private'))).verdict, /Accepted/)
  const exported = await page.evaluate(`import('/store.js')
    .then(({ read }) => read('keys'))
    .then(({ privateKey }) => crypto.subtle.exportKey('jwk', privateKey))
    .then(() => 'exported', ({ name }) => name)`)
  t.equal(exported, 'InvalidAccessError')
  await page.click('#logout')
  await page.waitForSelector('#logout', { state: 'hidden' })
  t.equal((await press(page, call('/api/private'))).reason, 'credentials_missing')
  t.same(faults, [])
})

interface Stop {
  readonly reason: RefusalReason
  readonly check: string
}

/** By which check an attack is stopped, or null if it goes through; `withNonces` if that differs. */
const ATTACKS: ReadonlyArray<{ id: string, stop: Stop | null, withNonces?: Stop }> = [
  { id: 'replay', stop: { reason: 'proof_replayed', check: 'proof.replay' } },
  { id: 'bearer', stop: { reason: 'token_bound', check: 'scheme' } },
  { id: 'key', stop: { reason: 'jkt_mismatch', check: 'proof.jkt' } },
  { id: 'method', stop: { reason: 'htm_mismatch', check: 'proof.htm' } },
  { id: 'url', stop: { reason: 'htu_mismatch', check: 'proof.htu' } },
  { id: 'time', stop: { reason: 'iat_too_old', check: 'proof.iat' }, withNonces: { reason: 'nonce_missing', check: 'proof.nonce' } },
  { id: 'ath', stop: { reason: 'proof_claim_invalid', check: 'proof.claims' } },
  { id: 'nonce', stop: null, withNonces: { reason: 'nonce_missing', check: 'proof.nonce' } }
]

t.test('Each attack is stopped by a check of its own, which is shown by name.', { skip }, async (t) => {
  const { page, faults } = await openPlayground(t)
  await logIn(page)
  t.match((await press(page, call('/api/private'))).verdict, /Accepted/, 'the good request, from which each differs in one thing')
  for (const { id, stop } of ATTACKS) {
    const shown = await press(page, attack(id))
    if (stop === null) {
      t.match(shown.verdict, /Let through\.\s*200/, id)
      t.match(await page.innerText('.lesson'), /DPOP_NONCE=required/)
      t.same(shown.checks.other, [], id)
    } else {
      t.match(shown.verdict, /Stopped\.\s*401/, id)
      t.equal(shown.reason, stop.reason, id)
      t.same(shown.checks.other, [`${stop.check} failed`], id)
    }
  }
  t.same(faults, [])
})

t.test('With nonces, good calls fetch theirs and go through, and each attack is stopped.', { skip }, async (t) => {
  const { page, faults } = await openPlayground(t, { DPOP_NONCE: 'required', DPOP_NONCE_SECRET: Buffer.alloc(32, 7).toString('base64url') })
  await logIn(page)
  const first = await press(page, call('/api/private'))
  t.match(first.verdict, /Accepted\.\s*200/)
  t.match(first.requests, [/Request 1.*401/, /Request 2.*200/], 'the nonce comes with the first refusal')
  const second = await press(page, call('/api/private'))
  t.equal(second.requests.length, 1, 'and serves the next call')
  t.same(second.checks, { passed: STEPS.length, other: [] })
  for (const { id, stop, withNonces = stop! } of ATTACKS) {
    const shown = await press(page, attack(id))
    t.match(shown.verdict, /Stopped\.\s*401/, id)
    t.equal(shown.reason, withNonces.reason, id)
    t.same(shown.checks.other, [`${withNonces.check} failed`], id)
  }
  t.same(faults, [])
})

t.test('What cannot be read is said, and the rest is explained.', { skip }, async (t) => {
  const { page } = await openPlayground(t)
  const post = async (body: string): Promise<{ status: number, notes?: string[], checks?: Array<{ name: string, outcome: string }>, reason?: string }> => {
    const answer = await fetch(new URL('/explain', page.url()), { method: 'POST', body })
    return { status: answer.status, ...await answer.json() as object }
  }
  for (const nonsense of ['', 'nonsense', 'null', '[]', '{"exchange":5}', '{"exchange":{"method":"GET","url":"/api/private"}}']) {
    t.same(await post(nonsense), { status: 200, checks: [], notes: ['The request cannot be read: it has no method or no URL.'] }, nonsense)
  }
  const exchange = { method: 'GET', url: 'http://localhost/api/private', sent: { authorization: 'Bearer a.b.c', odd: 5 }, received: null, body: {} }
  const partly = await post(JSON.stringify({ exchange, before: [null, 'x'] }))
  t.match(partly.notes, [/^The request: a header that was sent is not text/, /^Request 1 cannot be read/, /^Request 2 cannot be read/])
  t.match(partly.checks, [{ name: 'credentials', outcome: 'passed' }, { name: 'domain', outcome: 'passed' }, { name: 'token.form', outcome: 'failed' }])
  const large = await post(JSON.stringify({ exchange: { ...exchange, body: 'x'.repeat(2_000_000) } }))
  t.match(large, { status: 413, notes: [/1 MiB/] })
})

t.test('The keyboard alone does everything, and the result is announced.', { skip }, async (t) => {
  const { page, faults } = await openPlayground(t)
  await tabTo(page, 'login')
  await page.keyboard.press('Enter')
  await page.waitForSelector('#logout:not([hidden])')
  await tabTo(page, '/api/private')
  await page.keyboard.press('Space')
  await page.waitForSelector('#verdict')
  t.equal(await focused(page), '/api/private', 'beside the result the focus stays, for the next try')
  t.match(await page.textContent('#announcer'), /GET \/api\/private\. .*Accepted/)
  await tabTo(page, 'replay')
  await page.keyboard.press('Enter')
  await page.waitForSelector('#reason')
  t.match(await page.textContent('#announcer'), /Stopped/)
  await tabTo(page, 'result')
  t.same(faults, [])
})

t.test('A phone shows all of it without scrolling sideways, in light and dark, with and without motion.', { skip }, async (t) => {
  const { page, faults } = await openPlayground(t)
  await page.setViewportSize({ width: 360, height: 740 })
  await page.emulateMedia({ colorScheme: 'dark', reducedMotion: 'reduce' })
  await logIn(page)
  await press(page, attack('replay'))
  const overflow = await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth')
  t.equal(overflow, 0)
  t.equal(await focused(page), 'result', 'the reader is taken to the result')
  await page.click('#checks a')
  t.equal(await comesInSight(page, '#failed-check'), true, 'one step leads to the check that failed')
  await page.click('#back')
  t.equal(await focused(page), 'replay', 'and back')
  t.equal(await page.evaluate('getComputedStyle(document.documentElement).scrollBehavior'), 'auto')
  for (const scheme of ['dark', 'light'] as const) {
    await page.emulateMedia({ colorScheme: scheme })
    t.same(await weakContrasts(page), [], `all text stands out, ${scheme}`)
  }
  t.same(faults, [])
})

/** Scrolling takes a moment. */
async function comesInSight (page: Page, selector: string): Promise<boolean> {
  for (let tries = 0; tries < 100; tries++) {
    const { y } = await page.locator(selector).boundingBox() ?? { y: -1 }
    if (y >= 0 && y < page.viewportSize()!.height) return true
    await page.waitForTimeout(50)
  }
  return false
}

const focused = (page: Page): Promise<string> => page.evaluate(
  '(({ id, dataset, tagName }) => id || dataset.path || dataset.attack || tagName)(document.activeElement)')

async function tabTo (page: Page, name: string): Promise<void> {
  for (let presses = 0; presses < 60; presses++) {
    await page.keyboard.press('Tab')
    if (await focused(page) === name) return
  }
  throw new Error(`the tab key does not reach ${name}`)
}

/** What runs in the page is kept as a script: its types are those of a browser. */
const contrastScript = readFileSync(new URL('./contrast.js', import.meta.url), 'utf8')

const weakContrasts = (page: Page): Promise<string[]> => page.evaluate(contrastScript)
