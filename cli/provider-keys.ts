import { processSurroundings } from '../server/surroundings.ts'
import type { ExplainOptions } from '../explain/explain.ts'
import { fetchKeySet } from '../lib/provider/fetch-key-set.ts'
import { createKeyRing } from '../lib/provider/key-set.ts'
import { createKeySource } from '../lib/provider/key-source.ts'
import { ProviderFailure } from '../lib/provider/provider-failure.ts'
import { createTransport } from '../lib/provider/transport.ts'
import type { Settings } from '../lib/settings/settings.ts'

/** Where the keys of the provider are taken from to explain a request. */
export interface ProviderKeys {
  readonly candidates: NonNullable<ExplainOptions['candidates']>
  close (): Promise<void>
}

export type ProviderAccess = Pick<Settings, 'issuer' | 'IDP_JWKS_URI' | 'HTTP_PROXY' | 'HTTPS_PROXY' | 'NO_PROXY'>

/** Fetches them when asked for, as the service does. Undefined where no provider is configured. `onFailure` is told why a fetch failed. */
export function openProviderKeys ({ issuer, IDP_JWKS_URI: jwksUri, HTTP_PROXY: httpProxy, HTTPS_PROXY: httpsProxy, NO_PROXY: noProxy }: ProviderAccess, onFailure: (sentence: string) => void): ProviderKeys | undefined {
  if (issuer === undefined) return undefined
  const source = createKeySource({
    issuer,
    jwksUri,
    now: processSurroundings.wallMs,
    random: processSurroundings.random,
    schedule: (run, ms) => processSurroundings.after(ms, run),
    transport: createTransport({ httpProxy, httpsProxy, noProxy }),
    onEvent: (event) => { if (event.name === 'keys_fetch_failed') onFailure(`The keys of ${issuer} could not be fetched: ${event.failure}.`) }
  })
  return { candidates: (kid) => source.fetchCandidates(kid), close: () => source.close() }
}

/** The same judgement of keys as in the service, on the text of a set. Undefined where that is none. */
export async function readProviderKeys (text: string): Promise<ProviderKeys | undefined> {
  const base = 'http://localhost/'
  const exchange = { get: async () => ({ status: 200, body: Buffer.from(text) }), close: () => {} }
  try {
    const ring = createKeyRing((await fetchKeySet({ issuer: base, base, jwksUri: base }, exchange, new Map())).keys)
    return { candidates: (kid) => ring.candidates(kid), close: async () => {} }
  } catch (error) {
    if (error instanceof ProviderFailure) return undefined
    throw error
  }
}
