import { randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import { CAEP, RECEIVER, startRevocation, startTransmitter, type Site, type Transmitter } from './revocation-site.ts'
import { until } from './until.ts'
import type { Variables } from './variables.ts'

const AT_ONCE = 8
/**
 * `FLOOD_PUSHES=10000` is a day of it. From 2,500 on, a sender that is not the tokens' own issuer has filled its
 * quarter of the table.
 */
const PUSHES = Number(process.env.FLOOD_PUSHES ?? 40)
const QUARTER = 250_000
/** Of one event. */
const ALIASES = 100
const ELSEWHERE = 'https://elsewhere.example'

const usersOf = (iss: string, count: number) =>
  Array.from({ length: count }, () => ({ format: 'iss_sub', iss, sub: randomUUID() }))

/** Signed pushes of 100 new users each. Returns the statuses, how often each. */
async function flood (
  { push }: Site,
  hostile: Transmitter,
  iss: string,
  count: number
) {
  const statuses: Record<string, number> = {}
  let left = count
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    while (left-- > 0) {
      const { status } = await push(
        hostile.set({
          claims: { jti: randomUUID(), sub_id: { format: 'aliases', identifiers: usersOf(iss, ALIASES) } }
        })
      )
      statuses[status] = (statuses[status] ?? 0) + 1
    }
  }))
  return statuses
}

async function entriesOf ({ url }: Site) {
  const text = await (await fetch(`${url}/metrics`)).text()
  return Number(/^holdfast_revocation_entries (\d+)$/m.exec(text)![1])
}

/**
 * Two transmitters: the provider's own, and another one, which speaks about the issuer of the tokens or about one that
 * has none here.
 */
async function startAttacked (t: Test, isAboutOurs: boolean, values: Variables) {
  const hostile = await startTransmitter(t)
  const site = await startRevocation(t, {
    values,
    revocation: (own, issuer) => ({
      transmitters: [
        { issuer: own.url, audience: RECEIVER, delivery: 'push', tokenIssuers: [issuer.url] },
        {
          issuer: hostile.url,
          audience: RECEIVER,
          delivery: 'push',
          tokenIssuers: [isAboutOurs ? issuer.url : ELSEWHERE]
        }
      ]
    })
  })
  await until('it is ready', async () => (await fetch(`${site.url}/health/ready`)).ok)
  return { site, hostile, about: isAboutOurs ? site.issuer.url : ELSEWHERE }
}

/** The provider's own transmitter revokes this user while the flood comes, and another user stays. */
async function revoke ({ issuer, transmitter, push }: Site, sub: string) {
  return (await push(
    transmitter.set({
      type: `${CAEP}token-claims-change`,
      claims: { jti: sub, sub_id: { format: 'iss_sub', iss: issuer.url, sub } }
    })
  )).status
}

/**
 * A flood takes at most a quarter of the table, or nothing, and others' events are accepted and refuse their tokens
 * meanwhile.
 */
export async function judgeFlood (t: Test, isAboutOurs: boolean, values: Variables = {}) {
  t.setTimeout(60_000 + PUSHES * 50)
  const { site, hostile, about } = await startAttacked(t, isAboutOurs, values)
  const { issuer, ask } = site
  const [victim, early, other] = ['victim', 'early', 'another'].map(sub => issuer.token({ sub })) as [
    string,
    string,
    string
  ]
  t.strictSame([await ask(victim), await ask(early), await ask(other)], [200, 200, 200])
  const flooding = flood(site, hostile, about, PUSHES)
  t.strictSame([await revoke(site, 'early'), await ask(early), await ask(victim)], [202, 401, 200], 'while it lasts')
  const statuses = await flooding
  const stored = isAboutOurs ? Math.min(PUSHES * ALIASES, QUARTER) : 0
  t.strictSame(
    statuses,
    isAboutOurs && PUSHES * ALIASES > QUARTER
      ? { 202: QUARTER / ALIASES, 503: PUSHES - QUARTER / ALIASES }
      : { 202: PUSHES }
  )
  t.equal(await entriesOf(site), stored + 1)
  t.strictSame([await revoke(site, 'victim'), await ask(victim), await ask(other)], [202, 401, 200], 'and after it')
}
