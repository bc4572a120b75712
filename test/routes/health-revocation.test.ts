import t from 'tap'
import routes from '../../routes/health.ts'
import { createApp } from '../helpers/app.ts'

t.test('Readiness says why revocations are unknown', async t => {
  const rows = [
    [{ isCurrent: true, isLoaded: true, fault: 'unreachable' }, 200, 'ok'],
    [{ isCurrent: false, isLoaded: false, fault: 'unreachable' }, 503, 'unreachable'],
    [{ isCurrent: false, isLoaded: false }, 503, 'loading'],
    [{ isCurrent: false, isLoaded: true }, 503, 'stale_view']
  ] as const
  for (const [state, status, word] of rows) {
    const app = createApp(t)
    const issuers = { isComplete: false, all: () => [] }
    const replay = { state: () => ({ ready: true }) }
    const revocation = { revocations: { state: () => state }, transmitters: [] }
    app.decorate('holdfastGuard', { parts: { issuers, replay, revocation } } as never)
    app.decorate('closing', { hasBegun: false } as never)
    await app.register(routes, { ownPrefix: '' })
    const answer = await app.inject('/health/ready')
    t.notOk('streams' in answer.json())
    t.strictSame([answer.statusCode, answer.json().checks], [status, {
      process: 'ok',
      keys: 'ok',
      replay: 'ok',
      revocation: word
    }])
  }
})

t.test('Readiness names the stream of each transmitter, and none of them takes an instance out of service', async t => {
  const app = createApp(t)
  const states = [{ transmitter: 'https://a.example', status: 'enabled', verifiedAt: 1_800_000_000 }, {
    transmitter: 'https://b.example',
    status: 'no_subjects',
    verifiedAt: undefined
  }]
  app.decorate('holdfastGuard', {
    parts: {
      issuers: { isComplete: false, all: () => [] },
      replay: { state: () => ({ ready: true }) },
      revocation: {
        revocations: { state: () => ({ isCurrent: true }) },
        transmitters: states.map(state => ({ state: () => state }))
      }
    }
  } as never)
  app.decorate('closing', { hasBegun: false } as never)
  await app.register(routes, { ownPrefix: '' })
  const answer = await app.inject('/health/ready')
  t.strictSame([answer.statusCode, answer.json().streams], [200, {
    'https://a.example': { status: 'enabled', verifiedAt: 1_800_000_000 },
    'https://b.example': { status: 'no_subjects' }
  }])
})
