import { processSurroundings } from '../server/surroundings.ts'
import type { ExplainOptions } from '../explain/explain.ts'
import { createKeys } from '../lib/assembly/create-issuers.ts'
import { JWS_ALGS } from '../lib/jose/signature.ts'
import { readKeySet } from '../lib/provider/fetch-key-set.ts'
import { createKeyRing } from '../lib/provider/key-set.ts'
import { candidatesIn } from '../lib/provider/key-source.ts'
import type { KeySource } from '../lib/provider/key-source.ts'
import { ProviderFailure } from '../lib/provider/provider-failure.ts'
import type { IssuerSettings, Settings } from '../lib/settings/settings.ts'

/** Where the keys of the issuers are taken from to explain a request. */
export interface ProviderKeys {
  readonly candidates: NonNullable<ExplainOptions['candidates']>
  close (): Promise<void>
}

export type ProviderAccess = Pick<Settings, 'idp' | 'proxies'>

/**
 * Fetches them when asked for, as the service does. Undefined if no issuer is configured. `onFailure` gets the reason
 * of a failed fetch.
 */
export function openProviderKeys (
  settings: ProviderAccess,
  onFailure: (sentence: string) => void
): ProviderKeys | undefined {
  if (settings.idp.issuers.length === 0) return undefined
  const sources = new Map<IssuerSettings, Promise<KeySource | undefined>>()

  async function open (issuer: IssuerSettings): Promise<KeySource | undefined> {
    const report = (failure: string): void =>
      onFailure(`The keys of ${issuer.issuer} could not be fetched: ${failure}.`)
    try {
      return await createKeys(issuer, {
        proxies: settings.proxies,
        surroundings: processSurroundings,
        onEvent: event => {
          if (event.name === 'keys_fetch_failed') {
            report(
              event.found === undefined || event.detail !== undefined
                ? event.failure
                : `${event.failure}: expected ${event.expected}, found ${event.found}`
            )
          }
        }
      })
    } catch (error) {
      if (!(error instanceof ProviderFailure)) throw error
      report(error.message)
      return undefined
    }
  }

  return {
    async candidates (kid, alg, issuer) {
      const source = sources.get(issuer) ?? open(issuer)
      sources.set(issuer, source)
      const opened = await source
      const atHand = opened?.candidates(kid, alg) ?? []
      return atHand.length > 0 ? atHand : await opened?.fetchCandidates(kid, alg) ?? []
    },
    async close () {
      for (const source of sources.values()) await (await source.catch(() => undefined))?.close()
    }
  }
}

/** The same judgement of keys as in the service, on the text of a set. Undefined where that is none. */
export async function readProviderKeys (text: string): Promise<ProviderKeys | undefined> {
  try {
    const ring = createKeyRing(await readKeySet(Buffer.from(text), new Map(), JWS_ALGS))
    return { candidates: (kid, alg) => candidatesIn(ring, kid, alg), close: async () => {} }
  } catch (error) {
    if (error instanceof ProviderFailure) return undefined
    throw error
  }
}
