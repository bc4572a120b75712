import type { HtuCause } from '../../lib/guard/url/request-url.ts'

/**
 * Advice for the person who runs or calls the service, by how `htu` and the URL of the request differ.
 */
export const HTU_ADVICE: Readonly<Record<HtuCause, string>> = Object.freeze({
  scheme: 'The schemes differ. If TLS ends at a proxy, set PUBLIC_URL to the address that clients use, or set ' +
    'TRUST_PROXY and have the proxy send X-Forwarded-Proto.',
  host: 'The hosts differ. Behind a proxy, set PUBLIC_URL to the address that clients use, or have the proxy pass on ' +
    'the Host header unchanged, or set TRUST_PROXY and have it send X-Forwarded-Host.',
  port: 'The ports differ. Behind a proxy, set PUBLIC_URL with the port that clients use, or have the proxy pass on ' +
    'Host with its port (in nginx $http_host, not $host), or set TRUST_PROXY and have it send X-Forwarded-Port.',
  prefix:
    'The service does not see a path prefix that the client uses. If a proxy strips it, put it into PUBLIC_URL, ' +
    'or set TRUST_PROXY and have the proxy send X-Forwarded-Prefix.',
  prefix_extra: 'The service adds a path prefix that the client does not use. Check the path of PUBLIC_URL and ' +
    'X-Forwarded-Prefix: they must name what the proxy strips, and nothing else.',
  trailing_slash:
    'Only one of the paths ends in a slash, and that counts. Make the proof for exactly the URL that is ' +
    'requested, after redirects, and keep the proxy from adding or dropping the slash.',
  path_case:
    'The paths differ in upper and lower case, and that counts. Make the proof for exactly the URL that is requested.',
  path_rewritten:
    'The paths are two spellings of the same resource: something on the way decoded escapes or merged slashes. ' +
    'Have the proxy pass on the path as it came (in nginx, no URI part in proxy_pass).',
  path: 'The paths differ. Make the proof for exactly the URL that is requested, after redirects. If a proxy ' +
    'rewrites the path, tell the service what the client used.'
})
