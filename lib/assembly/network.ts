import { createTransport } from '../provider/transport.ts'
import type { PostingTransport } from '../provider/transport.ts'
import type { Settings } from '../settings/settings.ts'

/** The settings of calls to providers. */
export type ProxySettings = Pick<Settings, 'HTTP_PROXY' | 'HTTPS_PROXY' | 'NO_PROXY'>

/** The way to providers, through the proxies of the settings. @param keepAlive whether calls share connections */
export function networkOf ({ HTTP_PROXY: httpProxy, HTTPS_PROXY: httpsProxy, NO_PROXY: noProxy }: ProxySettings, keepAlive = false): PostingTransport {
  return createTransport({ httpProxy, httpsProxy, noProxy, keepAlive })
}
