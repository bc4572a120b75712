import type { IncomingMessage } from 'node:http'
import { hasBody, readMessage } from '../guard/message.ts'
import { protocolsOf } from './upstream/upgrade.ts'
import type { UrlSettings } from '../guard/url/base-url.ts'
import { createRequestUrlResolver } from '../guard/url/request-url.ts'
import type { GateSettings } from './gate-settings.ts'
import { createRules } from './rules.ts'

/**
 * Decides whether a request is for another protocol (RFC 9110 section 7.8): its rule allows it, and it names one that
 * is changed to here. Any other is a plain request, whatever it asks for. It is undefined if no rule allows it.
 * @param isObserving whether upgrades pass without a rule that allows them
 */
export function createUpgradeTest (
  { rules, exactPaths, upstream }: GateSettings,
  urlSettings: UrlSettings,
  isObserving: () => boolean
): ((message: IncomingMessage) => boolean) | undefined {
  if (upstream === undefined || !(isObserving() || rules.some(({ upgrade }) => upgrade))) return undefined
  const table = createRules(rules, { exactPaths })
  const urlOf = createRequestUrlResolver(urlSettings)
  return message => {
    const { headers, httpVersion, method } = message
    // Without a host it is refused, as any other request is.
    if (httpVersion === '1.0' || headers.host === undefined || hasBody(message)) return false
    if (protocolsOf(headers.upgrade) === undefined) return false
    try {
      const { ownPath } = urlOf(readMessage(message))
      const rule = table.choose(method!, ownPath)?.rules[0]
      if (rule?.upgrade) return true
      // Without a rule nothing passes, and so no upgrade, unless that is only observed.
      return (rule ? rule.observe : !table.isNearEnforced(method!, ownPath)) && isObserving()
    } catch {
      // It is refused like any other.
      return false
    }
  }
}
