import { isIdentityName } from './identity-headers.ts'

/**
 * Headers of a client that an upstream may take for the word of the proxy before it: another path or method than the one that the rule was
 * chosen by, or another caller. `Proxy` becomes the variable HTTP_PROXY of a CGI program.
 */
const STEERING: ReadonlySet<string> = new Set([
  'x-original-url', 'x-rewrite-url', 'x-http-method', 'x-http-method-override', 'x-method-override', 'proxy',
  // RFC 9440 has both names.
  'client-cert', 'client-cert-chain', 'remote-user', 'x-remote-user', 'x-real-ip', 'forwarded'
])
const STEERING_PREFIXES: readonly string[] = ['x-forwarded-', 'x-ssl-client-']

/**
 * Whether a header of this name never goes from a client to the upstream, because it would be ours (`isToldName`), or would lead the
 * upstream past the rule. Any sign counts for `-`, as it does for many programs.
 */
export function isWithheldName (name: string): boolean {
  const read = name.toLowerCase().replace(/[^a-z0-9]/g, '-')
  return STEERING.has(read) || STEERING_PREFIXES.some(prefix => read.startsWith(prefix)) || isIdentityName(read)
}
