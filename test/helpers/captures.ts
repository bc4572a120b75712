/** A request as it left the client, with its answer. */
export interface Sent {
  readonly method?: string
  readonly url: string
  readonly lines: ReadonlyArray<readonly [name: string, value: string]>
  readonly answered?: readonly [status: number, challenge?: string, nonce?: string]
  /** Unix seconds. */
  readonly at: number
}

const TLS = [
  '* ALPN: curl offers h2,http/1.1',
  '} [5 bytes data]',
  '* TLSv1.3 (OUT), TLS handshake, Client hello (1):',
  '* SSL connection using TLSv1.3 / TLS_AES_256_GCM_SHA384 / x25519 / RSASSA-PSS'
]

/** What curl -v prints. */
export function curlOutput (version: '1.1' | '2', { method = 'GET', url, lines, answered = [200], at }: Sent): string {
  const { host, hostname, port, pathname, search } = new URL(url)
  const [status, challenge, nonce] = answered
  const sent = version === '2' ? lines.map(([name, value]) => [name.toLowerCase(), value] as const) : lines
  return [
    '  % Total    % Received % Xferd',
    `*   Trying 192.0.2.1:${port || 443}...`,
    `* Connected to ${hostname} (192.0.2.1) port ${port || 443}`,
    ...url.startsWith('https:') ? TLS : [],
    ...version === '2'
      ? [
          '* using HTTP/2',
        `* [HTTP/2] [1] OPENED stream for ${url}`,
        `* [HTTP/2] [1] [:method: ${method}]`,
        '* [HTTP/2] [1] [:scheme: https]',
        ...sent.map(([name, value]) => `* [HTTP/2] [1] [${name}: ${value}]`)
        ]
      : [],
    `> ${method} ${pathname}${search} HTTP/${version}\r`,
    `> Host: ${host}\r`,
    '> User-Agent: curl/8.14.1\r',
    '> Accept: */*\r',
    ...sent.map(([name, value]) => `> ${name}: ${value}\r`),
    '> \r',
    '* Request completely sent off',
    `< HTTP/${version} ${status} \r`,
    ...challenge === undefined
      ? []
      : [`< ${version === '2' ? 'www-authenticate' : 'WWW-Authenticate'}: ${challenge}\r`],
    ...nonce === undefined ? [] : [`< dpop-nonce: ${nonce}\r`],
    `< date: ${new Date(at * 1000).toUTCString()}\r`,
    '< \r',
    '{ [83 bytes data]',
    '* Connection #0 to host left intact',
    '{"message":"..."}'
  ].join('\n')
}

/** An entry of a HAR file as Chromium exports it. */
export function harEntry ({ method = 'GET', url, lines, answered = [200], at }: Sent): { request: object } {
  const { host, pathname, search, protocol } = new URL(url)
  const [status, challenge, nonce] = answered
  const headers = [
    [':authority', host],
    [':method', method],
    [':path', pathname + search],
    [':scheme', protocol.slice(0, -1)],
    ['accept', '*/*'],
    ...lines
  ].map(([name, value]) => ({ name, value }))
  return {
    _initiator: { type: 'script' },
    _priority: 'High',
    _resourceType: 'fetch',
    request: { method, url, httpVersion: 'h2', headers, queryString: [], cookies: [], headersSize: -1, bodySize: 0 },
    response: {
      status,
      statusText: '',
      httpVersion: 'h2',
      headers: [['www-authenticate', challenge], ['dpop-nonce', nonce]].filter(([, value]) => value !== undefined).map((
        [name, value]
      ) => ({ name, value })),
      cookies: [],
      content: { size: 0 }
    },
    startedDateTime: new Date(at * 1000).toISOString(),
    time: 12.3
  } as { request: object }
}

/** A HAR file in which it is one of several. */
export function harFile (sent: Sent): string {
  const image = {
    request: { method: 'GET', url: 'https://www.example/logo.png', headers: [] },
    response: { status: 200 },
    startedDateTime: '2020-01-01T00:00:00Z'
  }
  return JSON.stringify({
    log: { version: '1.2', creator: { name: 'WebInspector' }, entries: [image, harEntry(sent), image] }
  })
}

/** The head of the request as it goes over the wire. */
export function rawHead ({ method = 'GET', url, lines }: Sent): string {
  const { host, pathname, search } = new URL(url)
  return [
    `${method} ${pathname}${search} HTTP/1.1`,
    `Host: ${host}`,
    ...lines.map(([name, value]) => `${name}: ${value}`),
    '',
    ''
  ].join('\r\n')
}

const inBash = (text: string) =>
  /[\p{Cc}!']/u.test(text)
    ? `$'${
      text.replace(/[\\']/g, '\\$&').replaceAll('\n', '\\n').replaceAll('\r', '\\r').replace(
        /[\p{Cc}!]/gu,
        character => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
      )
    }'`
    : `'${text}'`

/** What Chromium puts into the clipboard for "Copy as cURL (bash)". */
export function curlLine ({ method = 'GET', url, lines }: Sent, more: readonly string[] = []): string {
  const options = [
    ...method === 'GET' ? [] : [`-X ${inBash(method)}`],
    "-H 'accept: */*'",
    ...lines.map(([name, value]) => `-H ${inBash(`${name}: ${value}`)}`),
    ...more
  ]
  return [`curl ${inBash(url)}`, ...options].join(' \\\n  ')
}
