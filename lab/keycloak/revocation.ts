import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { stream } from '../../cli/stream.ts'
import { decodeJsonObject, splitCompactJws } from '../../lib/guard/jose/signed-jwt.ts'
import { until } from '../../test/helpers/until.ts'
import { BACK, changePassword } from './browser.ts'
import { startService, type Service } from './holdfast.ts'
import { useKeycloak, type Keycloak } from './keycloak.ts'
import { startRecorder, type Recorder } from './recorder.ts'
import { AS_THE_PAGE_SAYS, makeRealm, PASSWORD } from './realm.ts'
import type { Row } from './rows.ts'
import { shownBy } from '../../test/helpers/shown.ts'

const RECEIVER = { clientId: 'receiver', secret: 'secret-of-the-receiver' }
const PUSH_AUTHORIZATION = 'Bearer secret-of-the-pushes'

/** How a revocation comes: as a column of the table. */
const WAYS = ['push', 'poll', 'logout token'] as const
type Way = typeof WAYS[number]

/** A user with two sessions. */
interface User {
  id: string
  name: string
  sessions: readonly [Session, Session]
}

interface Session {
  token: string
  refreshToken: string
  sid: string
}

/** A realm of Keycloak with this service, and recorders on both ways between them. */
interface Site {
  way: Way
  issuer: string
  /** The admin API of the realm. */
  realm (method: string, path: string, body?: object): Promise<any>
  /** Calls an endpoint of OpenID Connect as the client of the users. */
  asClient (endpoint: string, parameters: Record<string, string>): Promise<void>
  atKeycloak: Recorder
  atService: Recorder
}

/** Something that takes tokens back, and what it leads to by events (push and poll) and by logout tokens. */
interface Act {
  done: string
  run (site: Site, user: User): Promise<unknown>
  events: string
  logout: string
}

const SESSION = '`session-revoked`, `iss_sub` and session `sid`: session refused'
const CHANGE = (type: string) => `\`credential-change\` \`${type}\`, \`iss_sub\`: user refused`
const LOGOUT = 'logout token, `sid`: session refused'
const NOTHING = 'nothing'

const ACTS: readonly Act[] = [
  {
    done: 'the user logs out',
    run: ({ asClient }, { sessions: [{ refreshToken }] }) => asClient('logout', { refresh_token: refreshToken }),
    events: SESSION,
    logout: LOGOUT
  },
  {
    done: 'an admin logs out all sessions of the user',
    run: ({ realm }, { id }) => realm('POST', `/users/${id}/logout`),
    events: '`session-revoked`, `iss_sub` and session `ALL`: user refused',
    logout: '2 × logout token, `sid`: user refused'
  },
  {
    done: 'an admin ends the session',
    run: ({ realm }, { sessions: [{ sid }] }) => realm('DELETE', `/sessions/${sid}`),
    events: NOTHING,
    logout: LOGOUT
  },
  {
    done: 'the user ends the session in the account console',
    run: endInAccountConsole,
    events: NOTHING,
    logout: LOGOUT
  },
  {
    done: 'the user changes the password',
    run: ({ issuer }, { name }) => changePassword(issuer, 'app', name, PASSWORD, 'another password'),
    events: CHANGE('update'),
    logout: NOTHING
  },
  {
    done: 'an admin sets the password',
    run: ({ realm }, { id }) =>
      realm('PUT', `/users/${id}/reset-password`, { type: 'password', value: 'another password', temporary: false }),
    events: CHANGE('update'),
    logout: NOTHING
  },
  { done: 'an admin removes a credential', run: removeCredential, events: CHANGE('delete'), logout: NOTHING },
  {
    done: 'an admin disables the user',
    run: ({ realm }, { id }) => realm('PUT', `/users/${id}`, { enabled: false }),
    events: NOTHING,
    logout: NOTHING
  },
  {
    done: 'an admin deletes the user',
    run: ({ realm }, { id }) => realm('DELETE', `/users/${id}`),
    events: NOTHING,
    logout: NOTHING
  },
  {
    done: 'a client revokes the refresh token (`/revoke`)',
    run: ({ asClient }, { sessions: [{ refreshToken }] }) => asClient('revoke', { token: refreshToken }),
    events: NOTHING,
    logout: NOTHING
  },
  {
    done: 'a client revokes the access token (`/revoke`)',
    run: ({ asClient }, { sessions: [{ token }] }) => asClient('revoke', { token }),
    events: NOTHING,
    logout: NOTHING
  },
  {
    done: 'an admin logs out all users of the realm',
    run: ({ realm }) => realm('POST', '/logout-all'),
    events: NOTHING,
    logout: NOTHING
  }
]

async function endInAccountConsole ({ issuer }: Site, { sessions: [{ sid }, { token }] }: User) {
  const { status } = await fetch(`${issuer}/account/sessions/${sid}`, {
    method: 'DELETE',
    headers: { authorization: `Bearer ${token}`, accept: 'application/json' }
  })
  if (status !== 204) throw new Error(`DELETE of the session: ${status}`)
}

async function removeCredential ({ realm }: Site, { id }: User) {
  const [credential] = await realm('GET', `/users/${id}/credentials`)
  await realm('DELETE', `/users/${id}/credentials/${credential.id}`)
}

/** `holdfast stream --ensure` and the service read it, each in the list and by its ID. */
const READ = 'GET 200, GET 200, GET 200, GET 200'

/** Revocations of Keycloak: for each act what arrives, and what becomes of tokens that were accepted. */
export async function revocation (keycloak: Keycloak): Promise<Row[]> {
  const rows: Row[] = []
  for (const way of WAYS) await runWay(keycloak, way, rows)
  return rows
}

async function runWay (keycloak: Keycloak, way: Way, rows: Row[]) {
  let serviceUrl = ''
  const atService = await startRecorder(() => serviceUrl)
  // Keycloak takes its own address from the requests, so all of them go this way.
  const atKeycloak = await startRecorder(() => keycloak.url)
  const site = await makeSite(way, atKeycloak, atService)
  const start = async () => {
    if (way !== 'logout token') await ensureStream(site)
    const service = await startService(site.issuer, { PUBLIC_URL: atService.url, REVOCATION: settingsFor(site) })
    serviceUrl = service.url
    return service
  }
  const row = async (sent: string, expected: string, run: () => Promise<string>) => {
    const came = await run().catch(error => (error as Error).message)
    rows.push({ setting: way, sent, came, expected })
    console.error(`${way} | ${sent} | ${came}`)
  }
  const service = await start()
  try {
    if (way !== 'logout token') {
      await row(
        'the service starts',
        `GET 200, POST 201, ${READ}: verified, \`enabled\``,
        () => watchStream(site, service, 0, at => at !== undefined)
      )
    }
    const bob = (await logIn(site, 'bob')).token
    for (const { done, run, events, logout } of ACTS) {
      await row(done, way === 'logout token' ? logout : events, () => act(site, service, bob, run))
    }
  } finally {
    await service.close()
  }
  const since = atKeycloak.exchanges.length
  const second = await start()
  try {
    if (way !== 'logout token') {
      await row(
        'the service starts again, and the user logs out',
        `${READ}: \`enabled\`; ${SESSION}`,
        async () => {
          const stream = await watchStream(site, second, since, () => true)
          return `${stream}; ${await act(site, second, (await logIn(site, 'bob')).token, ACTS[0]!.run)}`
        }
      )
    }
  } finally {
    await second.close()
    await Promise.all([atService, atKeycloak].map(recorder => recorder.close()))
  }
}

/** The realm, with what docs/reference/revocation.md says to set. */
async function makeSite (way: Way, atKeycloak: Recorder, atService: Recorder): Promise<Site> {
  const keycloak = useKeycloak(atKeycloak.url)
  const name = `holdfast-${way.replace(' ', '-')}`
  const issuer = await makeRealm(keycloak, name, AS_THE_PAGE_SAYS)
  const realm: Site['realm'] = (method, path, body) => keycloak.admin(method, `/${name}${path}`, body)
  const [app] = await realm('GET', '/clients?clientId=app')
  const logout = {
    'backchannel.logout.url': `${atService.url}/revocation/logout`,
    'backchannel.logout.session.required': 'true'
  }
  await realm('PUT', `/clients/${app.id}`, {
    ...app,
    standardFlowEnabled: true,
    redirectUris: [BACK],
    attributes: { ...app.attributes, ...way === 'logout token' && logout }
  })
  if (way !== 'logout token') {
    await realm('PUT', '', { realm: name, attributes: { 'ssf.transmitterEnabled': 'true' } })
    await realm('POST', '/clients', {
      ...RECEIVER,
      publicClient: false,
      standardFlowEnabled: false,
      serviceAccountsEnabled: true,
      optionalClientScopes: ['ssf.manage', 'ssf.read'],
      attributes: {
        'ssf.enabled': 'true',
        'ssf.defaultSubjects': 'ALL',
        ...way === 'push' && { 'ssf.validPushUrls': `${atService.url}/revocation/events` }
      }
    })
  }
  return {
    way,
    issuer,
    realm,
    atKeycloak,
    atService,
    async asClient (endpoint, parameters) {
      const answer = await fetch(`${issuer}/protocol/openid-connect/${endpoint}`, {
        method: 'POST',
        body: new URLSearchParams({ client_id: 'app', ...parameters })
      })
      if (!answer.ok) throw new Error(`${endpoint}: ${answer.status} ${await answer.text()}`)
    }
  }
}

/** What runs before each start. */
async function ensureStream (site: Site) {
  const { code, text } = await shownBy(out =>
    stream(['--ensure'], {
      env: { IDP_ISSUER: site.issuer, IDP_AUDIENCE: 'api', PUBLIC_URL: site.atService.url },
      out,
      readFile: path => path === 'config.yaml' ? JSON.stringify({ revocation: settingsFor(site) }) : undefined
    }))
  if (code !== 0) throw new Error(text)
}

function settingsFor ({ way, issuer }: Site) {
  if (way === 'logout token') return { logout: { clientId: 'app' } }
  const client = { clientId: RECEIVER.clientId, clientSecret: RECEIVER.secret }
  return {
    transmitters: [
      way === 'push'
        ? { issuer, delivery: 'push', pushAuthorization: PUSH_AUTHORIZATION, ...client }
        : { issuer, metadata: `${issuer}/.well-known/ssf-configuration`, delivery: 'poll', ...client }
    ]
  }
}

async function logIn ({ issuer }: Site, username: string) {
  const answer = await fetch(`${issuer}/protocol/openid-connect/token`, {
    method: 'POST',
    body: new URLSearchParams({ grant_type: 'password', client_id: 'app', username, password: PASSWORD })
  })
  const { access_token: token, refresh_token: refreshToken } = await answer.json() as Record<string, string>
  if (token === undefined || refreshToken === undefined) throw new Error(`the login of ${username}: ${answer.status}`)
  return { token, refreshToken, sid: String(decode(token).claims.sid) }
}

/** A user of its own, so that nothing of another act is in the way. */
async function makeUser (site: Site): Promise<User> {
  const name = `user-${randomUUID()}`
  const id = await site.realm('POST', '/users', {
    username: name,
    enabled: true,
    email: `${name}@example.com`,
    emailVerified: true,
    firstName: 'User',
    lastName: 'Example',
    credentials: [{ type: 'password', value: PASSWORD, temporary: false }]
  })
  return { id, name, sessions: [await logIn(site, name), await logIn(site, name)] }
}

/**
 * Does it, and says what arrived, and which of the tokens that were accepted before are refused once that was answered.
 */
async function act (site: Site, service: Service, bob: string, run: Act['run']) {
  const user = await makeUser(site)
  const tokens = [...user.sessions.map(({ token }) => token), bob]
  const ask = async () => {
    const answers = []
    for (const token of tokens) answers.push(await service.call('/private', token))
    return answers.join(', ')
  }
  const before = await ask()
  if (before !== '200, 200, 200') throw new Error(`before: ${before}`)
  await run(site, user)
  const doneMs = Date.now()
  const isAnswered = (sub: string) => {
    const found = arrivals(site, sub)
    return found.length > 0 && found.every(({ answer }) => answer !== undefined)
  }
  // What comes next is answered last: if nothing has come until then, nothing was sent.
  const next = await makeUser(site)
  await site.asClient('logout', { refresh_token: next.sessions[0].refreshToken })
  await eventually('an answer', () => isAnswered(user.id) || isAnswered(next.id))
  const after = await ask()
  await eventually('the answer to what comes next', () => isAnswered(next.id))
  const arrived = arrivals(site, user.id)
  for (const { atMs } of arrived) console.error(`  came after ${atMs - doneMs} ms`)
  return describe(arrived, user, after)
}

/** By what the two tokens of the user and that of Bob get. */
const OUTCOMES: Record<string, string> = {
  '200, 200, 200': 'none refused',
  '401 `token_revoked`, 200, 200': 'session refused',
  '401 `token_revoked`, 401 `token_revoked`, 200': 'user refused'
}

function describe (arrived: readonly Arrival[], { sessions }: User, after: string) {
  const outcome = OUTCOMES[after] ?? after
  if (arrived.length === 0) return outcome === 'none refused' ? NOTHING : `nothing: ${outcome}`
  const kinds = arrived.map(({ kind, session, answer }) => {
    const name = sessions.some(({ sid }) => sid === session) ? 'sid' : session
    return `${kind}${session === undefined ? '' : ` \`${name}\``}${answer === 'accepted' ? '' : ` (${answer})`}`
  })
  return `${
    [...new Set(kinds)].map(kind => `${kinds.length === 1 ? '' : `${kinds.length} × `}${kind}`).join('; ')
  }: ${outcome}`
}

/** What a token of Keycloak says. */
interface Sent {
  /** The user. */
  about: string | undefined
  kind: string
  session: string | undefined
}

/** One that was sent to this service, or fetched there. */
interface Arrival extends Sent {
  /** `accepted`, or what was answered. Undefined for as long as nothing was. */
  answer: string | undefined
  atMs: number
}

/** What has come about a user, by any way. */
function arrivals ({ atKeycloak, atService }: Site, sub: string) {
  const answered = (status: number, expected: number, came: string) =>
    status === expected ? 'accepted' : `${status} ${came}`
  const polls = atKeycloak.exchanges.filter(({ what, status }) => what.endsWith('/poll') && status === 200)
    .map(({ sent, came, atMs }) => ({
      ...JSON.parse(sent) as { ack: string[], setErrs: Record<string, { err: string }> },
      ...JSON.parse(came) as { sets: Record<string, string> },
      atMs
    }))
  const acknowledged = new Set(polls.flatMap(({ ack }) => ack))
  const errors = Object.assign({}, ...polls.map(({ setErrs }) => setErrs)) as Record<string, { err: string }>
  const fetched = new Map(
    polls.flatMap(({ sets, atMs }) => Object.entries(sets).map(([jti, set]) => [jti, { set, atMs }]))
  )
  return [
    ...atService.exchanges.filter(({ what }) => what === 'POST /revocation/events').map((
      { sent, status, came, atMs }
    ) => ({ ...readEvent(sent), answer: answered(status, 202, came), atMs })),
    ...atService.exchanges.filter(({ what }) => what === 'POST /revocation/logout').map((
      { sent, status, came, atMs }
    ) => ({
      ...readLogout(new URLSearchParams(sent).get('logout_token')!),
      answer: answered(status, 200, came),
      atMs
    })),
    ...[...fetched].map(([jti, { set, atMs }]) => ({
      ...readEvent(set),
      answer: acknowledged.has(jti) ? 'accepted' : errors[jti]?.err,
      atMs
    }))
  ].filter(({ about }) => about === sub)
}

const SECONDS = 60

/** A security event token: its type, the form of its subject, and what is not as it should be. */
function readEvent (token: string) {
  const { header, claims } = decode(token)
  const [[type, event] = ['', {}]] = Object.entries(claims.events as Record<string, Record<string, unknown>>)
  const { user = claims.sub_id, session } = claims.sub_id as {
    user?: { format: string, sub?: string },
    session?: { id: string }
  }
  const { format, sub } = user as { format: string, sub?: string }
  const change = event.change_type === undefined ? '' : ` \`${event.change_type}\``
  const isOdd = header.typ !== 'secevent+jwt' ||
    (event.event_timestamp !== undefined && Math.abs(Number(event.event_timestamp) - Number(claims.iat)) > SECONDS)
  const kind = `\`${type.split('/').at(-1)}\`${change}, \`${format}\`${session ? ' and session' : ''}${
    isOdd ? `, ${JSON.stringify({ header, claims })}` : ''
  }`
  return { about: sub, kind, session: session?.id }
}

function readLogout (token: string) {
  const { claims } = decode(token)
  return { about: claims.sub as string, kind: 'logout token,', session: claims.sid as string | undefined }
}

/** How the stream was made or found since then, whether it is verified, and what readiness says. */
async function watchStream (
  { atKeycloak }: Site,
  { url }: Service,
  since: number,
  isVerified: (at: number | undefined) => boolean
) {
  const state = async () => {
    const { streams } = await (await fetch(`${url}/health/ready`)).json() as {
      streams: Record<string, { status: string, verifiedAt?: number }>
    }
    return Object.values(streams)[0]!
  }
  await eventually('the stream is known', async () => {
    const { status, verifiedAt } = await state()
    return status !== 'unknown' && isVerified(verifiedAt)
  })
  const calls = atKeycloak.exchanges.slice(since).filter(({ what }) => what.endsWith('/ssf/transmitter/streams')).map((
    { what, status }
  ) => `${what.split(' ')[0]} ${status}`)
  const { status, verifiedAt } = await state()
  return `${calls.join(', ')}: ${verifiedAt === undefined ? '' : 'verified, '}\`${status}\``
}

async function eventually (what: string, isTrue: () => boolean | Promise<boolean>) {
  await until(what, async () => {
    await delay(20)
    return isTrue()
  })
}

function decode (token: string) {
  const jws = splitCompactJws(token)
  return { header: decodeJsonObject(jws!.header)!, claims: decodeJsonObject(jws!.payload)! }
}
