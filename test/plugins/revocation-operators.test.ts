import t, { type Test } from 'tap'
import { atAnotherTime, nowSeconds } from '../helpers/clock.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { UndecidedError } from '../../lib/revocation/store/store.ts'
import holdfast from '../../packages/holdfast/index.ts'
import { keyOf } from '../../lib/revocation/target.ts'
import { AUDIENCE, startIssuer, type Issuer } from '../helpers/issuer.ts'
import { RECEIVER, startRevocation, startTransmitter, type Site } from '../helpers/revocation-site.ts'
import { sendRaw } from '../helpers/wire.ts'
import { createApp } from '../helpers/app.ts'

const start = (t: Test, more: object = {}) =>
  startRevocation(t, { revocation: () => ({ operators: { scope: 'revoke', ...more } }) })

t.test('Only a client with the scope may revoke', async t => {
  const { issuer, operate, reasons } = await start(t)
  const body = { sub_id: { format: 'opaque', id: 's1' } }
  t.strictSame([
    (await operate(body, {})).status,
    (await operate(body, { authorization: `Bearer ${issuer.token({ scope: 'other' })}` })).status,
    (await operate(body, { authorization: `Bearer ${issuer.token({ scope: 'other revoke' })}` })).status
  ], [401, 403, 204])
  t.strictSame(reasons(), ['credentials_missing', 'scope_missing'])
})

t.test('An operator revokes by a subject of each format, nothing else, and can undo it', async t => {
  const { issuer, operate, ask, log } = await start(t)
  const iss = issuer.url
  const iat = nowSeconds() - 5
  const own = { iat, sub: 'user-9', sid: 's9', jti: 'j9', client_id: 'c9', email: 'Ann@a.example' }
  const rows = [
    [{ format: 'iss_sub', iss, sub: 'user-9' }, { sub: 'user-8' }],
    [{ subject_type: 'iss-sub', iss: iss.slice(0, -1), sub: 'user-9' }, { sub: 'user-8' }],
    [{ format: 'email', email: 'ann@A.example' }, { email: 'bob@a.example' }],
    [{ format: 'opaque', id: 's9' }, { sid: 's8' }],
    [{ format: 'jwt_id', iss, jti: 'j9' }, { jti: 'j8' }],
    [{ format: 'client', iss, client_id: 'c9' }, { client_id: 'c8' }],
    [{ session: { format: 'opaque', id: 's9' } }, { sid: 's8' }],
    [{ user: { format: 'iss_sub', iss, sub: 'user-9' }, session: { format: 'opaque', id: 's9' } }, { sid: 's8' }],
    [{
      format: 'aliases',
      identifiers: [{ format: 'email', email: 'ann@a.example' }, { format: 'iss_sub', iss, sub: 'unknown' }]
    }, { email: undefined }]
  ] as const
  for (const [subject, other] of rows) {
    const [token, twin] = [issuer.token(own), issuer.token({ ...own, ...other })]
    t.equal(await ask(token), 200)
    const answer = await operate({ sub_id: subject })
    t.strictSame(
      [answer.status, await answer.text(), await ask(token), await ask(twin)],
      [204, '', 401, 200],
      JSON.stringify(subject)
    )
    t.equal((await operate({ subject, undo: true })).status, 204)
    t.equal(await ask(token), 200)
  }
  t.strictSame(
    new Set(
      log.filter(({ event }) => event === 'revocation_received').map(({ sender, type, outcome }) =>
        `${sender} ${type} ${outcome}`
      )
    ),
    new Set(['operator operator applied'])
  )
})

t.test('An undo lifts what the same subject revokes, and no more', async t => {
  const { issuer, operate, ask } = await start(t)
  const user = { format: 'iss_sub', iss: issuer.url, sub: 'user-9' }
  const both = { user, session: { format: 'opaque', id: 's9' } }
  const token = issuer.token({ iat: nowSeconds() - 5, sub: 'user-9', sid: 's9' })
  for (const subject of [user, both]) await operate({ subject })
  await operate({ subject: both, undo: true })
  t.equal(await ask(token), 401)
  await operate({ subject: user, undo: true })
  t.equal(await ask(token), 200)
})

t.test('An undo lifts the end of a session that others have named by another claim, and nothing else of that name', async t => {
  const { app, issuer, operate, ask } = await start(t)
  const other = { at: nowSeconds(), event: 'logout', source: issuer.url, sender: issuer.url.slice(0, -1), standing: 'issuer' } as const
  const named = (claim: string) => keyOf(['claim', issuer.url, claim, 's9'])
  await app.holdfastGuard.parts.revocation!.revocations.append([
    { ...other, effect: 'end', key: named('session_id') },
    { ...other, effect: 'block', key: named('device') }
  ])
  const tokens = ['session_id', 'device'].map(claim => issuer.token({ iat: nowSeconds() - 5, [claim]: 's9' }))
  t.strictSame(await Promise.all(tokens.map(ask)), [401, 401])
  await operate({ sub_id: { format: 'opaque', id: 's9' }, undo: true })
  t.strictSame(await Promise.all(tokens.map(ask)), [200, 401])
})

t.test('An operator revokes all tokens of an issuer up to now, and those of a client by azp', async t => {
  const { issuer, operate, ask } = await start(t)
  const iat = nowSeconds()
  const token = issuer.token({ iat: iat - 5, azp: 'c1' })
  t.equal((await operate({ sub_id: { format: 'client', iss: issuer.url, client_id: 'c1' } })).status, 204)
  t.strictSame([await ask(token), await ask(issuer.token({ iat: iat - 5, azp: 'c2' }))], [401, 200])
  t.equal((await operate({ sub_id: { format: 'issuer', iss: issuer.url } })).status, 204)
  t.strictSame(
    [await ask(issuer.token({ iat: iat - 5 })), await ask(issuer.token({ iat: iat + 60, exp: iat + 600 }))],
    [401, 401],
    'nothing says that a token of the future is newer'
  )
  t.equal(await atAnotherTime(60, () => ask(issuer.token({ iat: iat + 60, exp: iat + 600 }))), 200)
})

t.test('An operator revokes the tokens of a key, known ones too, before the proof is recorded', async t => {
  const { issuer, operate, url, reasons } = await start(t, { issuers: '*' })
  const [client, other] = [await createDpopClient(), await createDpopClient()]
  const now = nowSeconds()
  const tokenFor = (jkt: string) => issuer.token({ iat: now - 5, exp: now + 600, cnf: { jkt } })
  const ask = async ({ jkt, proof }: typeof client, given?: string) => {
    const token = tokenFor(jkt)
    return (await fetch(`${url}/api/private`, {
      headers: { authorization: `DPoP ${token}`, dpop: given ?? proof({ token, url: `${url}/api/private` }) }
    })).status
  }
  t.equal(await ask(client), 200)
  t.equal((await operate({ sub_id: { format: 'jkt', jkt: client.jkt } })).status, 204)
  const token = tokenFor(client.jkt)
  const proof = client.proof({ token, url: `${url}/api/private` })
  t.strictSame([await ask(client, proof), await ask(other)], [401, 200])
  t.equal((await operate({ sub_id: { format: 'jkt', jkt: client.jkt }, undo: true })).status, 204)
  t.strictSame([await ask(client, proof), await ask(client, proof)], [200, 401])
  t.strictSame(reasons(), ['token_revoked', 'proof_replayed'])
})

/** A service of two issuers, A and B, of which B names sessions otherwise. */
async function startTwo (
  t: Test,
  issuers?: (a: string, b: string) => unknown
): Promise<Site & { other: Issuer, operateAs (issuer: Issuer, body: object): Promise<Response> }> {
  const other = await startIssuer(t)
  const site = await startRevocation(t, {
    revocation: (_, { url }) => ({
      logout: [{ issuer: other.url, clientId: 'c', sessionClaim: 'session_id' }],
      operators: { scope: 'revoke', ...issuers && { issuers: issuers(url, other.url) } }
    }),
    values: issuer => ({ IDP_ISSUER: undefined, IDP_ISSUERS: [{ issuer: issuer.url }, { issuer: other.url }] })
  })
  return {
    ...site,
    other,
    operateAs: (issuer, body) =>
      site.operate(body, {
        authorization: `Bearer ${issuer.token({ sub: 'operator', scope: 'revoke', iat: nowSeconds() })}`
      })
  }
}

const FORBIDDEN = {
  error: 'access_denied',
  error_description: 'This operator may not act for the issuer of the subject.'
}

t.test('An operator acts for the issuer of its own token, in undo too, and for no other', async t => {
  const site = await startTwo(t)
  const { issuer: a, other: b, operateAs, ask, log } = site
  const iat = nowSeconds() - 5
  const token = b.token({ iat, sub: 'user-9', jti: 'j9', client_id: 'c9' })
  const iss = b.url
  const subjects = [
    { format: 'issuer', iss },
    { format: 'iss_sub', iss, sub: 'user-9' },
    { format: 'iss_sub', iss: iss.slice(0, -1), sub: 'user-9' },
    { format: 'jwt_id', iss, jti: 'j9' },
    { format: 'client', iss, client_id: 'c9' },
    {
      format: 'aliases',
      identifiers: [{ format: 'email', email: 'a@a.example' }, { format: 'iss_sub', iss, sub: 'user-9' }]
    },
    { user: { format: 'iss_sub', iss, sub: 'user-9' }, session: { format: 'opaque', id: 's9' } },
    { user: { format: 'iss_sub', iss: a.url, sub: 'user-9' }, device: { format: 'iss_sub', iss, sub: 'd9' } },
    // Such names have no issuer, but this one does not speak of its own.
    { format: 'email', email: 'a@a.example', iss },
    { format: 'complex', user: { format: 'iss_sub', iss: a.url, sub: 'user-9' }, place: { iss } }
  ]
  for (const subject of subjects) {
    for (const undo of [{}, { undo: true }]) {
      const answer = await operateAs(a, { sub_id: subject, ...undo })
      t.strictSame(
        [answer.status, await answer.json(), await ask(token)],
        [403, FORBIDDEN, 200],
        JSON.stringify(subject)
      )
    }
  }
  const key = await operateAs(a, { sub_id: { format: 'jkt', jkt: 'x' } })
  t.strictSame([key.status, await key.json()], [403, {
    error: 'access_denied',
    error_description: 'A key may have tokens of any issuer, and this operator may not act for all of them.'
  }])
  t.strictSame(new Set(log.filter(({ event }) => event === 'revocation_refused').map(({ reason }) => reason)).size, 2)
  t.equal((await operateAs(b, { sub_id: { format: 'issuer', iss } })).status, 204)
  t.equal(await ask(token), 401)
  t.equal((await operateAs(a, { sub_id: { format: 'issuer', iss }, undo: true })).status, 403)
  t.equal(await ask(token), 401, "A's operator lifts nothing of B")
  t.equal(
    await atAnotherTime(60, async () => (await operateAs(b, { sub_id: { format: 'issuer', iss }, undo: true })).status),
    204
  )
  t.equal(await ask(token), 200)
})

t.test('A subject that names no issuer is one of those for which the operator acts', async t => {
  const { issuer: a, other: b, operateAs, ask } = await startTwo(t)
  const iat = nowSeconds() - 5
  for (
    const [subject, ofA, ofB] of [[{ format: 'email', email: 'ann@a.example' }, { email: 'Ann@a.example' }, {
      email: 'ann@a.example'
    }], [{ format: 'opaque', id: 's1' }, { sid: 's1' }, { session_id: 's1' }]] as const
  ) {
    const [atA, atB] = [a.token({ iat, ...ofA }), b.token({ iat, ...ofB })]
    t.equal((await operateAs(a, { sub_id: subject })).status, 204)
    t.strictSame([await ask(atA), await ask(atB)], [401, 200])
    t.equal((await operateAs(b, { sub_id: subject })).status, 204)
    t.equal(await ask(atB), 401)
    t.equal((await operateAs(b, { sub_id: subject, undo: true })).status, 204)
    t.strictSame([await ask(atA), await ask(atB)], [401, 200])
  }
})

t.test('An operator acts for the issuers that the settings name', async t => {
  for (const issuers of [(_: string, b: string) => [b], () => '*', () => ['*']]) {
    const { issuer: a, other: b, operateAs, ask } = await startTwo(t, issuers)
    const iat = nowSeconds() - 5
    const token = b.token({ iat, sub: 'user-9', session_id: 's9' })
    for (const subject of [{ format: 'iss_sub', iss: b.url, sub: 'user-9' }, { format: 'opaque', id: 's9' }]) {
      t.equal((await operateAs(a, { sub_id: subject })).status, 204)
      t.equal(await ask(token), 401)
      t.equal((await operateAs(a, { sub_id: subject, undo: true })).status, 204)
      t.equal(await ask(token), 200)
    }
    const isForAll = [issuers('', '')].flat().includes('*')
    t.equal((await operateAs(a, { sub_id: { format: 'jkt', jkt: 'x' } })).status, isForAll ? 204 : 403)
    t.equal(
      (await operateAs(a, { sub_id: { format: 'issuer', iss: 'https://unknown.example' } })).status,
      isForAll ? 204 : 403
    )
  }
})

t.test('Where the application names the issuers, an operator for all gives back what others have ended', async t => {
  const [own, other, transmitter] = [await startIssuer(t), await startIssuer(t), await startTransmitter(t)]
  const app = createApp(t)
  await app.register(holdfast, {
    idp: { audience: AUDIENCE, issuers: issuer => ({ issuer }) },
    revocation: {
      transmitters: [{ issuer: transmitter.url, audience: RECEIVER, delivery: 'push', tokenIssuers: [other.url] }],
      operators: { scope: 'revoke', issuers: '*' }
    }
  })
  app.get('/', { onRequest: app.authenticate() }, () => 'passed')
  const ask = async (issuer: Issuer): Promise<number> => {
    const authorization = `Bearer ${issuer.token({ sid: 's1' })}`
    return (await app.inject({ url: '/', headers: { authorization } })).statusCode
  }
  const post = async (path: string, type: string, payload: string): Promise<number> => {
    const authorization = `Bearer ${own.token({ sub: 'operator', scope: 'revoke' })}`
    const headers = { authorization, 'content-type': type }
    return (await app.inject({ method: 'POST', url: `/revocation/${path}`, headers, payload })).statusCode
  }
  const session = { sub_id: { format: 'opaque', id: 's1' } }
  t.equal(await post('events', 'application/secevent+jwt', transmitter.set({ claims: session })), 202)
  t.strictSame([await ask(own), await ask(other)], [200, 401])
  t.equal(await post('subjects', 'application/json', JSON.stringify({ ...session, undo: true })), 204)
  t.strictSame([await ask(own), await ask(other)], [200, 200])
})

t.test('The 204 for an issuer that the service does not have says so, and that for one of its own does not', async t => {
  const { issuer, operate } = await start(t, { issuers: '*' })
  for (const undo of [false, true]) {
    for (const [iss, said] of [['https://unknown.example/', 'unmatched'], [issuer.url, null]] as const) {
      const { status, headers } = await operate({ sub_id: { format: 'iss_sub', iss, sub: 'user-9' }, undo })
      t.strictSame([status, headers.get('holdfast-revocation')], [204, said])
    }
  }
})

t.test('A session of one issuer is not looked for under the name that another has for its own', async t => {
  const { issuer: a, other: b, operateAs, ask } = await startTwo(t, () => '*')
  const iat = nowSeconds() - 5
  t.equal((await operateAs(a, { sub_id: { format: 'opaque', id: 's1' } })).status, 204)
  t.strictSame([await ask(a.token({ iat, sid: 's1' })), await ask(a.token({ iat, session_id: 's1' }))], [401, 200])
  t.strictSame([await ask(b.token({ iat, session_id: 's1' })), await ask(b.token({ iat, sid: 's1' }))], [401, 200])
})

t.test('The session ALL of a user is the user, and that of nobody names nothing', async t => {
  const { issuer, operate, ask, app } = await start(t)
  const token = issuer.token({ iat: nowSeconds() - 5, sub: 'user-9', sid: 'ALL' })
  const session = { format: 'opaque', id: 'ALL' }
  const { status, headers } = await operate({ sub_id: session })
  t.strictSame([status, headers.get('holdfast-revocation')], [204, 'unmatched'], 'the 204 says that nothing is revoked')
  t.strictSame([await ask(token), app.holdfastGuard.parts.revocation!.counts.get('operator unmapped')], [200, 1])
  const named = await operate({ sub_id: { user: { format: 'iss_sub', iss: issuer.url, sub: 'user-9' }, session } })
  t.strictSame([named.status, named.headers.get('holdfast-revocation')], [204, null])
  t.equal(await ask(token), 401)
})

t.test('A format that is not known is 400, at any depth, and a known one that names nothing here is 204', async t => {
  const { operate } = await start(t)
  const rows: ReadonlyArray<readonly [object, number]> = [
    [{ format: 'nonsense', id: 'x' }, 400],
    [{ format: 'saml_assertion_id', id: 'x' }, 400],
    [{ user: { format: 'nonsense', id: 'x' } }, 400],
    [{ format: 'aliases', identifiers: [{ format: 'nonsense' }] }, 400],
    [{ format: 'account', uri: 'acct:ann@a.example' }, 204],
    [{ format: 'did', url: 'did:example:1' }, 204],
    [{ format: 'uri', uri: 'https://a.example' }, 204]
  ]
  for (const [subject, status] of rows) {
    const answer = await operate({ sub_id: subject })
    t.equal(answer.status, status, JSON.stringify(subject))
    if (status === 400) {
      t.strictSame(await answer.json(), {
        error: 'invalid_request',
        error_description: 'The message cannot be understood: the format of the subject is not known.'
      })
    }
  }
})

t.test('An unknown subject is 204 too', async t => {
  const { issuer, operate, app } = await start(t)
  const subjects = [
    { format: 'iss_sub', iss: issuer.url, sub: 'unknown' },
    { format: 'phone_number', phone_number: '+1' },
    { format: 'complex', tenant: { format: 'opaque', id: 't' } },
    { format: 'complex' }
  ]
  for (const subject of subjects) t.equal((await operate({ subject })).status, 204, subject.format)
  t.strictSame(Object.fromEntries(app.holdfastGuard.parts.revocation!.counts), { 'operator applied': 1, 'operator unmapped': 3 })
})

t.test('A body that cannot be understood is refused', async t => {
  const { operate } = await start(t)
  const rows: ReadonlyArray<readonly [unknown, string]> = [
    [[], 'the body is not an object'],
    [{}, 'the body has no sub_id'],
    [{ sub_id: 'user-1' }, 'the body has no sub_id'],
    [{ sub_id: { format: 'opaque', id: 's' }, undo: 'yes' }, 'undo is neither true nor false'],
    [{ sub_id: {} }, 'the subject has no format'],
    [{ sub_id: { format: ['jkt'], jkt: 'x' } }, 'the subject has no format'],
    [{ sub_id: { format: 'opaque' } }, 'the subject has no id'],
    [{ sub_id: { format: 'client', iss: 'https://a.example' } }, 'the subject has no client_id'],
    [{ sub_id: { format: 'jkt', jkt: 1 } }, 'the subject has no jkt'],
    [{ sub_id: { format: 'issuer', iss: '' } }, 'the subject has no iss']
  ]
  for (const [body, fault] of rows) {
    const answer = await operate(body)
    t.strictSame([answer.status, answer.headers.get('content-language'), await answer.json()], [400, 'en', {
      error: 'invalid_request',
      error_description: `The message cannot be understood: ${fault}.`
    }], fault)
  }
})

t.test('A body of another content type, or of none, is 400, whatever it holds', async t => {
  const { issuer, operate, log, url } = await start(t)
  const body = { sub_id: { format: 'opaque', id: 's' } }
  const authorization = `Bearer ${issuer.token({ sub: 'operator', scope: 'revoke' })}`
  for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/secevent+jwt', 'application/json-patch', '']) {
    const answer = await operate(body, { authorization, 'content-type': type })
    t.hasStrict([answer.status, await answer.json()], [400, { error: 'invalid_request' }], type)
  }
  const bare = ['POST /revocation/subjects HTTP/1.1', 'Host: a', 'Connection: close', `Authorization: ${authorization}`]
  t.equal((await sendRaw(url, [...bare, 'Content-Length: 2', '', '{}'])).status, 400, 'no line')
  for (const type of ['application/json', 'Application/JSON; charset=utf-8']) {
    t.equal((await operate(body, { authorization, 'content-type': type })).status, 204, type)
  }
  t.equal(log.filter(({ event }) => event === 'revocation_received').length, 2)
})

t.test('A revocation that cannot be stored is 503, and a fault of our own is 500', async t => {
  const { operate, app, log } = await start(t)
  const { revocations } = app.holdfastGuard.parts.revocation!
  const { append } = revocations
  const body = { sub_id: { format: 'opaque', id: 's' } }
  revocations.append = async () => {
    throw new UndecidedError('there is no room for another cutoff')
  }
  const full = await operate(body)
  t.strictSame([full.status, full.headers.get('retry-after')], [503, '1'])
  revocations.append = async () => {
    throw new Error('a fault')
  }
  t.equal((await operate(body)).status, 500)
  revocations.append = append
  t.equal((await operate(body)).status, 204)
  t.strictSame(log.filter(({ event }) => event === 'revocation_refused').map(({ reason }) => reason), [
    'there is no room for another cutoff'
  ])
})
