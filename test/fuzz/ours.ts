import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { explainRequest } from '../../cli/explain/explain.ts'
import { readSettings } from '../../holdfast.ts'
import { createGuardParts, type GuardParts } from '../../lib/assembly/create-guard.ts'
import { NODE_CRYPTO } from '../../lib/assembly/jwt-tools.ts'
import { arrivedRequest } from '../../lib/guard/guard.ts'
import { createOffStore } from '../../lib/guard/replay/create-store.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { Settings } from '../../lib/settings/settings.ts'
import type { Variables } from '../helpers/variables.ts'
import { processSurroundings } from '../../server/surroundings.ts'
import { ALGS, KEY_SET } from './keys.ts'
import { AUDIENCE, ISSUER, PUBLIC_URL, SITES, currentNonce, type Site, type WireRequest } from './parts.ts'

/** The reason of a refusal, or undefined for a request that passes. */
export type Ours = string | undefined

const SETTINGS: Readonly<Record<Site, Variables>> = {
  http: {},
  https: {},
  public: { PUBLIC_URL },
  nonce: { DPOP_NONCE: 'required' },
  required: { IDP_DPOP_MODE: 'REQUIRED' }
}

/** The guard of each site, without a server around it. The clock is the one of the request. */
export async function openOurs (): Promise<{
  judge: (request: WireRequest) => Promise<Ours>,
  /** What the explanation says of a request that comes for the first time. */
  explain: (request: WireRequest) => Promise<Ours>,
  nonceAt: (now: number) => string,
  close: () => Promise<void>
}> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-fuzz-'))
  const keysFile = join(folder, 'keys.json')
  writeFileSync(keysFile, JSON.stringify(KEY_SET))
  let now = 0
  const surroundings = { ...processSurroundings, now: () => now, steadyMs: () => now * 1000 }
  const guards = new Map<Site, GuardParts>()
  const settingsOf = new Map<Site, Settings>()
  for (const site of SITES) {
    const settings = await readSettings({
      IDP_ISSUER: ISSUER,
      IDP_AUDIENCE: AUDIENCE,
      IDP_KEYS_FILE: keysFile,
      IDP_ALGS: ALGS.join(' '),
      DPOP_ALGS: ALGS.join(' '),
      DPOP_REPLAY_MAX: '8000000',
      METRICS: 'off',
      ...SETTINGS[site]
    })
    settingsOf.set(site, settings)
    guards.set(
      site,
      await createGuardParts(settings, { surroundings, jwtTools: NODE_CRYPTO, onEvent () {}, metadataMount: undefined })
    )
  }

  return {
    judge (request) {
      now = request.now
      const received = {
        method: request.method,
        url: request.target,
        headers: {},
        rawHeaders: [...request.rawHeaders],
        socket: { encrypted: request.site === 'https', remoteAddress: '192.0.2.1' }
      }
      return new Promise((resolve, reject) =>
        guards.get(request.site)!.guard(arrivedRequest(received), error => {
          if (error && !(error instanceof Refusal)) return reject(error)
          resolve(error?.reason)
        })
      )
    },
    async explain ({ site, now, method, target, rawHeaders }) {
      const headers = rawHeaders.flatMap((name, at) => at % 2 === 0 ? [[name, rawHeaders[at + 1]!] as const] : [])
      const { keys } = guards.get(site)!.issuers!.all()[0]!
      const { refusal } = await explainRequest(
        { method, target, headers, encrypted: site === 'https', remoteAddress: '192.0.2.1' },
        { settings: settingsOf.get(site)!, now, keys: () => keys, requirements: [], replay: createOffStore() }
      )
      return refusal?.reason
    },
    nonceAt (now) {
      currentNonce.text = guards.get('nonce')!.nonces!.current(now)
      return currentNonce.text
    },
    async close () {
      await Promise.all([...guards.values()].map(parts => parts.close()))
      rmSync(folder, { recursive: true })
    }
  }
}
