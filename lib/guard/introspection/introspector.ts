import type { JsonObject } from '../../base/json.ts'
import { parseDocument } from '../provider/provider-document.ts'
import { ProviderFailure } from '../provider/provider-failure.ts'
import type { ProviderSession, Transport } from '../provider/transport.ts'
import { Refusal, type RefusalDetail } from '../../refusal.ts'
import type { ClientAuthentication } from '../provider/client-authentication.ts'

/** What the provider says about a token (RFC 7662 section 2.2). */
interface IntrospectionAnswer {
  /** The claims of the token, or undefined if it is not active. */
  readonly claims: JsonObject | undefined
  /** When the answer itself expires, in Unix seconds: the `exp` of a signed one, else infinity. */
  readonly expiresAt: number
}

/** The members of an answer, with `active`. */
export interface ReadAnswer extends Pick<IntrospectionAnswer, 'expiresAt'> {
  readonly members: JsonObject
}

export type Introspector = ReturnType<typeof createIntrospector>

export interface IntrospectorOptions {
  readonly transport: Transport
  /** Finds the address of the calls. Rejects with ProviderFailure. */
  readonly endpoint: () => Promise<string>
  readonly authenticate: ClientAuthentication
  /**
   * Reads an answer that is a JWT (RFC 9701 section 5): the members are its `token_introspection`. Returns undefined if
   * answers are plain JSON. Rejects with ProviderFailure.
   */
  readonly readSigned: ((jwt: string) => Promise<ReadAnswer>) | undefined
}

/** Maximum number of calls at once, whatever is sent. */
const MAX_IN_FLIGHT = 64

const RETRY_AFTER_SECONDS = 1

/** Asks the provider about tokens. */
export function createIntrospector ({ transport, endpoint, authenticate, readSigned }: IntrospectorOptions) {
  /** The calls by their tokens, those that wait included. */
  const running = new Map<
    string,
    { readonly session: ProviderSession, readonly answer: Promise<IntrospectionAnswer> }
  >()
  /** What begins each call that waits, in their order. Only good tokens wait, each until its own deadline. */
  const waiting = new Set<() => void>()
  /**
   * `failures`: calls without an answer that could be used. `turnedAway`: tokens that caused no call, because too many
   * were under way.
   */
  const counts = { active: 0, inactive: 0, failures: 0, turnedAway: 0 }

  const callsUnderWay = () => running.size - waiting.size

  function call (token: string, session: ProviderSession, turn: Promise<void>): Promise<IntrospectionAnswer> {
    return turn.then(() => post(token, session)).then(answer => {
      counts[answer.claims ? 'active' : 'inactive']++
      return answer
    }, error => {
      counts.failures++
      // A signed answer needs the keys of its issuer.
      if (error instanceof Refusal) throw unavailable(error.reason)
      const { word, detail, facts: { expected, found } } = error instanceof ProviderFailure
        ? error
        : new ProviderFailure('unexpected', (error as Error).name)
      throw unavailable(word, {
        ...detail !== undefined && { detail },
        ...expected !== undefined && { expected },
        ...found !== undefined && { found }
      })
    }).finally(() => {
      session.close()
      running.delete(token)
      // A call that ended while it waited frees no place.
      if (callsUnderWay() < MAX_IN_FLIGHT) waiting.values().next().value?.()
    })
  }

  async function post (token: string, session: ProviderSession): Promise<IntrospectionAnswer> {
    const url = await endpoint()
    const request = await authenticate({ token, token_type_hint: 'access_token' })
    const accept = readSigned ? 'application/token-introspection+jwt' : 'application/json'
    const { status, body } = await session.send(url, { ...request, headers: { ...request.headers, accept } })
    if (status !== 200) throw new ProviderFailure('status', status)
    const answer = readSigned
      ? await readSigned(body.toString('latin1'))
      : { members: parseDocument(body, 'introspection_malformed'), expiresAt: Infinity }
    const { members: { active, ...claims }, expiresAt } = answer
    // It says nothing unless it is one of the two booleans.
    if (typeof active !== 'boolean') throw new ProviderFailure('introspection_malformed')
    return { claims: active ? claims : undefined, expiresAt }
  }

  return {
    /**
     * One call for a token, however many callers wait for it. If all calls are under way, a stranger is turned away,
     * and a token that is no stranger gets the next call that is free.
     * @param isStranger whether the token may be made up: neither its signature nor an answer has vouched for it
     * @throws Refusal introspection_unavailable
     */
    ask (token: string, isStranger: boolean): Promise<IntrospectionAnswer> {
      const shared = running.get(token)
      if (shared) return shared.answer
      const isFree = running.size < MAX_IN_FLIGHT
      if (!isFree && isStranger) {
        counts.turnedAway++
        return Promise.reject(unavailable('busy'))
      }
      let cut = () => {}
      // Opened now, so that the deadline counts the time in which the token waits.
      const session = transport.open(() => cut())
      const turn = isFree
        ? Promise.resolve()
        : new Promise<void>((resolve, reject) => {
          const begin = () => {
            waiting.delete(begin)
            resolve()
          }
          waiting.add(begin)
          cut = () => {
            waiting.delete(begin)
            reject(new ProviderFailure('deadline'))
          }
        })
      const answer = call(token, session, turn)
      running.set(token, { session, answer })
      return answer
    },
    state: () => ({ ...counts, inFlight: callsUnderWay() }),
    close () {
      for (const { session } of running.values()) session.close()
      transport.close()
    }
  }
}

/**
 * Whether a call has failed for its own token alone: some providers answer 400 to one that they cannot read. A stranger
 * that was turned away says nothing of the provider either.
 * @param error what `ask` rejects with
 */
export function isOfOneToken (error: unknown): boolean {
  const { failure, detail } = (error as Refusal).detail!
  return failure === 'busy' || (failure === 'status' && detail === 400)
}

function unavailable (failure: string, more: RefusalDetail = {}): Refusal {
  return new Refusal('introspection_unavailable', {
    detail: { failure, ...more },
    retryAfterSeconds: RETRY_AFTER_SECONDS
  })
}
