import t from 'tap'
import { bearerLines } from '../helpers/call.ts'
import { GATE_PROXIES } from '../helpers/gate-proxies.ts'
import { openGatedSite } from '../helpers/gated-site.ts'

/**
 * In a header each `ü` has six bytes, in a token less than three: so the gate says much more of the caller than the
 * client does.
 */
const groupsOf = (count: number) => Array.from({ length: count }, (_, n) => `${'ü'.repeat(16)}${n}`)
const CLAIM = 'Groups'

for (const proxy of GATE_PROXIES) {
  t.test(`Behind ${proxy.name}, a caller with 300 groups is named in full, up to 32 KB.`, {
    skip: proxy.program === undefined && `${proxy.name} is not installed`
  }, async t => {
    const { issuer, upstream, send, replaceGate } = await openGatedSite(t, proxy, { claim: CLAIM })
    const gate = await replaceGate({
      GATE: { rules: [{ path: '/*' }], claims: { [CLAIM]: 'groups' }, ...proxy.grpc && { grpcPort: 0 } }
    })
    for (const count of [1, 150, 300]) {
      const groups = groupsOf(count)
      const { status } = await send('/x', bearerLines(issuer.token({ groups })))
      t.equal(status, 200, `${count} groups`)
      const told = upstream.arrived.at(-1)?.headers['x-auth-claim-groups'] ?? ''
      t.strictSame(JSON.parse(decodeURIComponent(told)), groups)
      if (count === 300) t.ok(told.length > 29 * 1024 && told.length < 32 * 1024, `${told.length} bytes`)
    }
    const scope = groupsOf(300).join(' ').replaceAll('ü', 'x')
    t.equal((await send('/x', bearerLines(issuer.token({ scope })))).status, 200, 'a scope of 5 KB')
    t.equal(upstream.arrived.at(-1)!.headers['x-auth-scope'], scope.replaceAll(' ', '%20'))
    t.strictSame(gate.reasons(), [])
  })

  t.test(`Behind ${proxy.name}, a token of 11 KB passes: it is sent to the gate once.`, {
    skip: proxy.program === undefined && `${proxy.name} is not installed`
  }, async t => {
    const { issuer, upstream, send, replaceGate } = await openGatedSite(t, proxy)
    await replaceGate()
    const token = issuer.token({ groups: 'x'.repeat(8 * 1024) })
    t.ok(token.length > 11 * 1024)
    t.equal((await send('/api/x', bearerLines(token))).status, 200)
    t.equal(upstream.arrived.length, 1)
  })
}
