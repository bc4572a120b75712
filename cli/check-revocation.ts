import { hostsOf, parseRedisUrl } from '../lib/guard/redis/redis-url.ts'
import type { RevocationSettings } from '../lib/settings/revocation-settings.ts'
import type { Settings } from '../lib/settings/settings.ts'
import { findingsOrFaults } from './check-files.ts'
import { judgeRedis } from './check-store.ts'
import { checkTransmitter } from './check-transmitter.ts'
import { fault, fine, type Finding } from './findings.ts'
import { COMMANDS, readStore, tryStore } from './stored-revocations.ts'

/** What was found of one part, by its title. */
type Section = readonly [title: string, findings: readonly Finding[]]

/** Looks at the store of revocations, and at each transmitter as the service does. It changes no stream. */
export async function checkRevocation (settings: Settings): Promise<Section[]> {
  const { revocation } = settings
  if (!revocation) return []
  const sections: Section[] = [['Store of revocations', await findingsOrFaults(() => checkRevocationStore(revocation))]]
  for (const [index, transmitter] of revocation.transmitters.entries()) {
    const findings = await checkTransmitter(transmitter, settings, `revocation.transmitters[${index}]`)
    sections.push([`Transmitter ${transmitter.issuer}`, findings])
  }
  return sections
}

const RIGHTS = `Check the URL, and the rights of the user: it needs ${COMMANDS.slice(0, -1).join(', ')} and ` +
  `${COMMANDS.at(-1)} for the keys {holdfast:revocation}:*.`

async function checkRevocationStore ({ store }: RevocationSettings): Promise<Finding[]> {
  if (store === 'memory') {
    return [
      fine(
        'It is the memory of the process: for one instance only, and empty after each start. Several instances ' +
          'must share a Redis (revocation.store).'
      )
    ]
  }
  const { reason, lacking } = await tryStore(store)
  const hosts = hostsOf(parseRedisUrl(store))
  const findings = judgeRedis(hosts, reason, {
    works: 'can hold revocations',
    lost: 'Requests with tokens would get 503',
    rights: RIGHTS
  })
  if (findings.some(({ kind }) => kind === 'fault')) return findings
  if (lacking.length > 0) {
    const wrong = `Redis at ${hosts.join(', ')}: the user has no right to ${lacking.join(', ')}`
    return [...findings, fault(`It cannot be used: ${wrong}.`, RIGHTS)]
  }
  let records = 0
  const problem = await readStore(store, () => {
    records++
  })
  return [
    ...findings,
    problem === undefined
      ? fine(`It can be read: ${records} records.`)
      : fault(`It cannot be read: ${problem}.`, RIGHTS)
  ]
}
