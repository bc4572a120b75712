import { processSurroundings } from '../server/surroundings.ts'
import { createKeys } from '../lib/assembly/create-issuers.ts'
import { NODE_CRYPTO } from '../lib/assembly/jwt-tools.ts'
import type { SignerKeys } from '../lib/guard/jose/signed-jwt.ts'
import type { KeySource } from '../lib/guard/provider/key-source.ts'
import { ProviderFailure } from '../lib/guard/provider/provider-failure.ts'
import type { IssuerSettings, Settings } from '../lib/settings/settings.ts'

/** Where the keys of the issuers are taken from to explain a request. */
export type ProviderKeys = ReturnType<typeof openProviderKeys>

const NO_KEYS: SignerKeys = { candidates: () => [], fetchCandidates: async () => [] }

/** Fetches them when asked for, as the service does. `onFailure` gets the reason of a failed fetch. */
export function openProviderKeys (
  settings: Settings,
  onFailure: (sentence: string) => void = () => {}
) {
  const sources = new Map<IssuerSettings, Promise<KeySource | undefined>>()

  async function open (issuer: IssuerSettings): Promise<KeySource | undefined> {
    const report = (failure: string) =>
      onFailure(`The keys of ${issuer.issuer} could not be fetched: ${failure}.`)
    try {
      return await createKeys(issuer, {
        settings,
        jwtTools: NODE_CRYPTO,
        surroundings: processSurroundings,
        onEvent: event => {
          if (event.name !== 'keys_fetch_failed') return
          const { failure, detail, expected, found } = event
          report(
            found === undefined || detail !== undefined ? failure : `${failure}: expected ${expected}, found ${found}`
          )
        }
      })
    } catch (error) {
      if (!(error instanceof ProviderFailure)) throw error
      report(error.message)
      return undefined
    }
  }

  return {
    async keys (issuer: IssuerSettings) {
      const source = sources.get(issuer) ?? open(issuer)
      sources.set(issuer, source)
      return await source ?? NO_KEYS
    },
    async close () {
      for (const source of sources.values()) await (await source)?.close()
    }
  }
}
