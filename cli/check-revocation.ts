import { hostsOf, parseRedisUrl } from '../lib/guard/redis/redis-url.ts'
import type { RevocationEntry } from '../lib/revocation/entry.ts'
import { originOf } from '../lib/revocation/store/record.ts'
import type { RevocationSettings } from '../lib/settings/revocation-settings.ts'
import type { Settings } from '../lib/settings/settings.ts'
import { findingsOrFaults } from './check-files.ts'
import { judgeRedis } from './check-store.ts'
import { checkTransmitter } from './check-transmitter.ts'
import { fault, fine, warning, type Finding } from './findings.ts'
import { COMMANDS, readStore, tryStore } from './stored-revocations.ts'

type News = Pick<RevocationEntry, 'source' | 'event' | 'at'>

/** What was found of one part, by its title. */
type Section = readonly [title: string, findings: readonly Finding[]]

/** Looks at the store of revocations, and at each transmitter as the service does. It changes no stream. */
export async function checkRevocation (settings: Settings): Promise<Section[]> {
  const { revocation } = settings
  if (!revocation) return []
  const news: News[] = []
  const store = await findingsOrFaults(() => checkRevocationStore(revocation, news))
  const sections: Section[] = [['Store of revocations', store]]
  for (const [index, transmitter] of revocation.transmitters.entries()) {
    const { issuer: name } = transmitter
    sections.push([`Transmitter ${name}`, [
      ...await checkTransmitter(transmitter, settings, `revocation.transmitters[${index}]`),
      lastVerification(revocation, news.filter(({ source, event }) => source === name && event === 'verification'))
    ]])
  }
  return sections
}

const RIGHTS = `Check the URL, and the rights of the user: it needs ${COMMANDS.slice(0, -1).join(', ')} and ` +
  `${COMMANDS.at(-1)} for the keys {holdfast:revocation}:*.`

/** @param news gets what the store knows of streams */
async function checkRevocationStore ({ store }: RevocationSettings, news: News[]): Promise<Finding[]> {
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
  const problem = await readStore(store, (key, { parts }) => {
    records++
    for (const part of parts) if (part.kind === 's') news.push({ ...originOf(part, key), at: part.at / 1000 })
  })
  return [
    ...findings,
    problem === undefined
      ? fine(`It can be read: ${records} records.`)
      : fault(`It cannot be read: ${problem}.`, RIGHTS)
  ]
}

function lastVerification ({ store }: RevocationSettings, verifications: readonly News[]): Finding {
  if (store === 'memory') {
    return fine('When its stream was last verified, only the running service knows: /health/ready says it.')
  }
  if (verifications.length === 0) {
    return warning(
      'Its stream has not been verified for as long as the store remembers.',
      'The service has it verified at its start and every 10 minutes. If it runs, see what it logs as ' +
        'revocation_refused and stream_changed.'
    )
  }
  const at = Math.max(...verifications.map(verification => verification.at))
  return fine(`Its stream was last verified at ${new Date(at * 1000).toISOString()}.`)
}
