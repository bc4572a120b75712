import { setTimeout as delay } from 'node:timers/promises'
import { makeIssuerKey, type IssuerKey } from '../../../test/helpers/issuer.ts'
import { nowMs, type Site } from './site.ts'

/**
 * An unknown `kid` has the keys fetched again at most each 30 seconds. The rest is for a provider or an instance that
 * is in trouble just then.
 */
const PATIENCE_MS = 90_000

/**
 * Keys rotate as good providers do it: the next key is published, used when every process knows it, and then the one
 * before is withdrawn. So no good request may notice. The hostile requests with unknown keys are what has the keys
 * fetched.
 * @param goesOn false ends it after the next step
 * @param report takes what should not have happened
 * @returns how often the keys have rotated
 */
export async function rotateKeys (
  { provider, members }: Site,
  goesOn: () => boolean,
  report: (violation: string) => void
): Promise<number> {
  /** Whether every process gives this status to a token by that key, before patience is over. */
  async function everyone (key: IssuerKey, status: number, what: string) {
    const endMs = nowMs() + PATIENCE_MS
    const token = provider.token({}, key)
    for (const member of members) {
      while (await ask(member.instance.url, token) !== status) {
        if (!goesOn()) return false
        if (nowMs() > endMs) {
          report(`${what} by ${member.name}`)
          return false
        }
        await delay(500)
      }
    }
    return true
  }

  for (let rotations = 0; ; rotations++) {
    const before = provider.current
    const next = makeIssuerKey(`rotated-${rotations}`)
    provider.published = [before, next]
    if (!await everyone(next, 200, 'a new key is not used')) return rotations
    provider.current = next
    // For the requests that are on their way with the key before.
    await delay(2000)
    provider.published = [next]
    if (!await everyone(before, 401, 'a key that was withdrawn is used')) return rotations + 1
  }
}

async function ask (url: string, token: string) {
  try {
    const answer = await fetch(`${url}/api/private?kind=probe&id=${crypto.randomUUID()}`, {
      headers: { authorization: `Bearer ${token}` }
    })
    await answer.arrayBuffer()
    return answer.status
  } catch {
    return 0
  }
}
