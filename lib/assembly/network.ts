import { createTransport } from '../provider/transport.ts'
import type { PostingTransport } from '../provider/transport.ts'
import type { Settings } from '../settings/settings.ts'

/** The settings of calls to providers. */
export type ProxySettings = Pick<Settings, 'proxies'>

/** The way to providers, through the proxies of the settings. @param keepAlive whether calls share connections */
export function networkOf ({ proxies }: ProxySettings, keepAlive = false): PostingTransport {
  return createTransport({ ...proxies, keepAlive })
}
