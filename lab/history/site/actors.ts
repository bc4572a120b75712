import { randomBytes, randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { Agent, request } from 'undici'
import type { Random } from '../../../test/fuzz/random.ts'
import { createDpopClient, type DpopClient } from '../../../test/helpers/dpop-client.ts'
import { makeIssuerKey, type IssuerKey } from '../../../test/helpers/issuer.ts'
import type { Entry, Part } from './ledger.ts'
import { nowMs, type Site } from './site.ts'

/** A request that is to be sent. */
interface Call {
  url: string
  headers: Record<string, string>
  jti?: string
}

/** Somebody with a key, whose token is bound to it and made anew when the keys of the provider rotate. */
interface User {
  client: DpopClient
  /** Bound to the key. */
  bound (): string
  bearer (): string
}

interface Crowd {
  site: Site
  random: Random
  users: readonly User[]
  thief: DpopClient
  forger: IssuerKey
  opaque: readonly string[]
  /** Calls with a proof that have been accepted. */
  used: Call[]
}

interface Actor {
  kind: string
  role: Entry['role']
  needs: readonly Part[]
  make (crowd: Crowd): Call
  /** How many copies go out at once. */
  copies?: number
}

const THROUGH_NGINX: readonly Part[] = ['nginx', 'instance', 'clock']
const THROUGH_GATE: readonly Part[] = ['gate', 'upstream']
const MOST_USED = 3000

const aUser = ({ random, users }: Crowd) => random.among(users)
const toSite = ({ site }: Crowd, authorization: string, path = '/api/private') => ({
  url: site.url + path,
  headers: { host: new URL(site.publicUrl).host, authorization }
})
const gateTarget = ({ site }: Crowd, kind: string, id: string) =>
  `${site.gateUrl}/api/orders?kind=${kind}&id=${id}`

function dpopCall ({ site }: Crowd, token: string, client: DpopClient, url = `${site.publicUrl}/api/private`) {
  const jti = randomUUID()
  const proof = client.proof({ token, url, claims: { jti } })
  return {
    url: `${site.url}/api/private`,
    headers: { host: new URL(site.publicUrl).host, authorization: `DPoP ${token}`, dpop: proof },
    jti
  }
}

function gateDpopCall (crowd: Crowd) {
  const { client, bound } = aUser(crowd)
  const token = bound()
  const jti = randomUUID()
  const proof = client.proof({ token, url: 'http://gate.test.example/api/orders', claims: { jti } })
  return { url: gateTarget(crowd, 'good', jti), headers: { authorization: `DPoP ${token}`, dpop: proof }, jti }
}

function boundCall (crowd: Crowd) {
  const { client, bound } = aUser(crowd)
  return dpopCall(crowd, bound(), client)
}

const hostile = (kind: string, make: (crowd: Crowd) => Call): Actor => ({ kind, role: 'hostile', needs: [], make })

const ACTORS: readonly Actor[] = [
  {
    kind: 'public',
    role: 'good',
    needs: ['nginx', 'instance'],
    make: crowd => toSite(crowd, 'Bearer nonsense', '/api/public')
  },
  {
    kind: 'Bearer',
    role: 'good',
    needs: THROUGH_NGINX,
    make: crowd => toSite(crowd, `Bearer ${aUser(crowd).bearer()}`)
  },
  {
    kind: 'Bearer with a new token',
    role: 'good',
    needs: THROUGH_NGINX,
    make: crowd => toSite(crowd, `Bearer ${crowd.site.provider.token()}`, '/api/private-scoped')
  },
  {
    kind: 'opaque',
    role: 'good',
    needs: [...THROUGH_NGINX, 'introspection'],
    make: crowd => toSite(crowd, `Bearer ${crowd.random.among(crowd.opaque)}`)
  },
  { kind: 'DPoP', role: 'good', needs: [...THROUGH_NGINX, 'redis'], make: boundCall },
  { kind: 'DPoP, several copies', role: 'copy', needs: [], make: boundCall, copies: 4 },
  {
    kind: 'gate, Bearer',
    role: 'good',
    needs: THROUGH_GATE,
    make: crowd => ({
      url: gateTarget(crowd, 'good', randomUUID()),
      headers: { authorization: `Bearer ${aUser(crowd).bearer()}` }
    })
  },
  { kind: 'gate, DPoP', role: 'good', needs: [...THROUGH_GATE, 'redis'], make: gateDpopCall },
  { kind: 'gate, several copies', role: 'copy', needs: [], make: gateDpopCall, copies: 3 },

  hostile('made-up token', crowd => toSite(crowd, `Bearer ${randomBytes(20).toString('base64url')}`)),
  hostile(
    'forged token',
    crowd =>
      toSite(
        crowd,
        `Bearer ${crowd.site.provider.token({}, { ...crowd.forger, kid: crowd.site.provider.current.kid })}`
      )
  ),
  hostile(
    'unknown kid',
    crowd => toSite(crowd, `Bearer ${crowd.site.provider.token({}, { ...crowd.forger, kid: randomUUID() })}`)
  ),
  // Older than any clock here can be wrong.
  hostile(
    'expired token',
    crowd => toSite(crowd, `Bearer ${crowd.site.provider.token({ exp: Math.floor(Date.now() / 1000) - 7300 })}`)
  ),
  hostile(
    'token for others',
    crowd => toSite(crowd, `Bearer ${crowd.site.provider.token({ aud: 'https://other.example' })}`)
  ),
  hostile('stolen token as Bearer', crowd => toSite(crowd, `Bearer ${aUser(crowd).bound()}`)),
  hostile('stolen token with another key', crowd => dpopCall(crowd, aUser(crowd).bound(), crowd.thief)),
  hostile('proof for another URL', crowd => {
    const { client, bound } = aUser(crowd)
    return dpopCall(crowd, bound(), client, `${crowd.site.publicUrl}/api/public`)
  }),
  hostile('garbage for a proof', crowd => {
    const { url, headers } = toSite(crowd, `DPoP ${aUser(crowd).bound()}`)
    return { url, headers: { ...headers, dpop: `${randomBytes(30).toString('base64url')}.e30.AA` } }
  }),
  hostile('gate, no token', crowd => ({ url: gateTarget(crowd, 'hostile', randomUUID()), headers: {} })),
  hostile(
    'gate, path of two readings',
    crowd => ({
      url: `${crowd.site.gateUrl}/api/..;/orders?kind=hostile&id=${randomUUID()}`,
      headers: { authorization: `Bearer ${aUser(crowd).bearer()}` }
    })
  ),
  hostile('replay', replay)
]

/** What has passed is sent again. As long as there is none, a request without a token. */
function replay (crowd: Crowd) {
  if (crowd.used.length === 0) return { url: gateTarget(crowd, 'hostile', randomUUID()), headers: {} }
  const { url, headers } = crowd.random.among(crowd.used)
  return { url: url.replace('kind=good', 'kind=hostile'), headers }
}

async function makeUser (site: Site, number: number) {
  const client = await createDpopClient(number % 2 === 0 ? 'ES256' : 'EdDSA')
  const keep = (make: () => string) => {
    let token = make()
    let key = site.provider.current
    return () => {
      if (key !== site.provider.current) {
        key = site.provider.current
        token = make()
      }
      return token
    }
  }
  return {
    client,
    bound: keep(() => site.provider.token({ sub: `user-${number}`, cnf: client.cnf })),
    bearer: keep(() => site.provider.token({ sub: `user-${number}` }))
  }
}

export async function gather (site: Site, random: Random): Promise<Crowd> {
  return {
    site,
    random,
    users: await Promise.all(Array.from({ length: 8 }, (_, number) => makeUser(site, number))),
    thief: await createDpopClient(),
    forger: makeIssuerKey('forged'),
    opaque: Array.from({ length: 4 }, () => site.provider.opaqueToken()),
    used: []
  }
}

/** What came of a request, in the words of the ledger. */
async function send (agent: Agent, { url, headers }: Call) {
  try {
    const { statusCode, headers: answered, body } = await request(url, { dispatcher: agent, headers })
    await body.text()
    if (statusCode !== 401) return String(statusCode)
    const error = /error="(\w+)"/.exec(String(answered['www-authenticate'] ?? ''))?.[1] ?? 'without an error'
    return `401 ${error}`
  } catch {
    return 'broken'
  }
}

/** Every actor in turn at random, so many at once, until it is stopped. */
export function startLoad (crowd: Crowd, atOnce: number) {
  const agent = new Agent({ connections: 64, headersTimeout: 20_000, bodyTimeout: 20_000, keepAliveTimeout: 10_000 })
  const entries: Entry[] = []
  const end = new AbortController()

  async function act ({ kind, role, needs, make, copies = 1 }: Actor) {
    const call = make(crowd)
    await Promise.all(Array.from({ length: copies }, async () => {
      const startMs = nowMs()
      const outcome = await send(agent, call)
      entries.push({ kind, role, needs, startMs, endMs: nowMs(), outcome, jti: call.jti })
      if (outcome !== '200' || call.jti === undefined) return
      if (crowd.used.length < MOST_USED) crowd.used.push(call)
      else crowd.used[crowd.random.below(MOST_USED)] = call
    }))
  }

  const runs = Array.from({ length: atOnce }, async () => {
    while (!end.signal.aborted) {
      await act(crowd.random.among(ACTORS))
      await delay(10 + crowd.random.below(30))
    }
  })
  return {
    entries,
    async stop () {
      end.abort()
      await Promise.all(runs)
      await agent.close()
    }
  }
}
