import t from 'tap'
import { describeEvent, type GuardEvent } from '../../../lib/assembly/guard-events.ts'

/** What an operator should look at is a warning. */
const LEVELS = {
  keys_fetch_failed: 'warn',
  keys_expired: 'warn',
  issuers_unavailable: 'warn',
  replay_unavailable: 'warn',
  replay_available: 'info',
  revocation_unavailable: 'warn',
  revocation_available: 'info',
  revocation_refused: 'warn',
  revocation_in_memory: 'info',
  stream_changed: 'warn',
  stream_enabled: 'info',
  stream_differs: 'warn',
  stream_without_subjects: 'warn',
  event_ahead: 'warn'
} as const

t.test('An event is logged at its level, with its name as the sentence unless it has another', async t => {
  for (const [name, level] of Object.entries(LEVELS)) {
    const { level: logged, sentence } = describeEvent({ name } as GuardEvent)
    t.equal(logged, level, name)
    if (!['stream_differs', 'stream_without_subjects', 'event_ahead'].includes(name)) t.equal(sentence, name.replaceAll('_', ' '))
  }
})
