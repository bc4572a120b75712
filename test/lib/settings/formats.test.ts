import t from 'tap'
import { decodeSecret, FORMATS, hasScheme, type FormatName } from '../../../lib/settings/formats.ts'

/** By format: texts that it takes, and texts that it does not. */
const ROWS: Readonly<Record<FormatName, readonly [taken: readonly string[], refused: readonly string[]]>> = {
  domain: [
    ['tenant.example', 'tenant.example:8443', 'https://x', 'HTTPS://x', 'a+b-c.1://x', 'localhost', '[::1]:8443'],
    ['', 'a..b', '.a', 'a.', 'a%41', 'a:', 'a b', 'a/b', 'a:0', '1x://', 'a:99999', '1.2.3.4.5', '999.1.1.1']
  ],
  'safe-url': [
    ['https://a.example/', 'https://a.example/x', 'http://localhost:1/'],
    [
      'http://a.example/', 'https:a.example', 'https://a.example\\x', ' https://a.example', 'https://a.exa mple',
      'https://a.example/?q', 'https://a.example/#f', 'https://u@a.example/', 'https:///x', ''
    ]
  ],
  'issuer-name-or-any': [
    ['*', 'https://a.example'],
    ['**', '']
  ],
  'issuer-name': [
    ['https://a.example', 'https://a.example/x'],
    ['*', 'a.example', 'https:a.example']
  ],
  'provider-url': [
    ['https://a.example/keys', 'https://a.example/keys?x=1'],
    ['http://a.example/keys', 'a', 'https:a.example/keys', 'https://a:99999/keys']
  ],
  'namespaced-claim': [
    ['https://a.example/team', 'urn:x', 'A+b.1-c:x'],
    ['team', 'https://a b', '1a:x', 'x:', 'https://[', ' urn:x', 'urn:x y']
  ],
  'replay-store': [
    ['memory', 'off', 'redis://a', 'rediss://a:6379/1'],
    ['', 'Memory', 'http://a']
  ],
  'revocation-store': [
    ['memory', 'redis://a'],
    ['off', '']
  ],
  'tls-redis': [
    ['rediss://a'],
    ['redis://a', 'memory', 'rediss:', 'off', 'rediss://a:x']
  ],
  'nonce-secret': [
    ['A'.repeat(43), 'A'.repeat(43) + '=', 'A'.repeat(44) + '==', '_-' + 'a0'.repeat(22)],
    ['A'.repeat(42), 'A'.repeat(45), 'A'.repeat(43) + '===', 'A'.repeat(43) + '+', ' ' + 'A'.repeat(43), '']
  ],
  'trusted-peer': [
    [
      'true', 'false', 'loopback', 'linklocal', 'uniquelocal', '10.0.0.1', '10.0.0.0/8', '::1', 'fd00::/8',
      '10.0.0.0/32', '::/128'
    ],
    ['1', '10.0.0.0/255.0.0.0', '10.0.0.0/33', '10.0.0.0/', '10.0.0.0/x8', '10.0.0.0/8x', 'x/8', '', 'any', '::/129']
  ],
  'public-url': [
    ['https://a.example', 'http://a.example/x'],
    ['', 'a.example', 'https://a.example?x', 'https://1.2.3.4.5']
  ],
  'proxy-url': [
    ['http://proxy:3128', 'https://proxy', 'proxy:3128', 'http://u:p@proxy:1'],
    [
      'ftp://proxy', 'ws://proxy', 'http://proxy/x', 'http://proxy/?x', 'http://proxy/#x', '', 'xhttps://proxy',
      'httpsx://proxy'
    ]
  ],
  'observe-day': [
    ['off', '2027-01-15'],
    ['', '2027-02-30', '1969-12-31', 'tomorrow']
  ],
  'audit-target': [
    ['off', 'log', 'audit', 'log.txt', './on', '/var/log/audit.log'],
    ['on', 'true', 'false', 'Log', 'OFF', 'yes', 'No']
  ],
  'claim-name': [
    ['sid', 'session.id', 'nothing', 'https://a.example/no', 'n'],
    ['false', 'FALSE', 'no', 'Off', 'true', 'yes', 'on']
  ],
  'rate-limit': [
    ['off', '1', '9' + '0'.repeat(14)],
    ['0', '01', '1' + '0'.repeat(15), 'offx', 'xoff', '1.5', '-1']
  ],
  scope: [
    ['a', 'read:x', '!#[]~'],
    ['', 'a b', 'a"b', 'a\\b', 'é', '"a', 'a"']
  ],
  'gate-upstream': [
    ['http://127.0.0.1:3000'],
    ['x', 'ftp://a']
  ],
  origin: [
    ['*', 'https://a.example', 'HTTPS://A.example:8443', 'http://localhost'],
    [
      'https://a.example/', 'https://a.example:443', 'https://*.example', 'a.example', 'https://b\u00fccher.example',
      'null'
    ]
  ],
  'header-name': [
    ['X-A', "a!#$%&'*+.^_`|~-9"],
    ['*', '', 'a b', 'a:', '(a', 'é']
  ],
  'http-method': [
    ['GET', 'PURGE'],
    ['CONNECT', 'get', 'X', '']
  ]
}

for (const [name, [taken, refused]] of Object.entries(ROWS)) {
  t.test(`What the format ${name} takes, and what it does not`, async t => {
    const isTaken = FORMATS[name as FormatName]
    t.strictSame(taken.filter(text => !isTaken(text)), [])
    t.strictSame(refused.filter(isTaken), [])
  })
}

t.test('A scheme is read in any case, and at the beginning only', async t => {
  const texts = ['https://x', 'A+.-1://', 'x https://', '1://', 'https:/x']
  t.strictSame(texts.filter(hasScheme), ['https://x', 'A+.-1://'])
})

t.test('A secret is the bytes of its text', async t => {
  t.strictSame(decodeSecret('AQID'.repeat(11)), Buffer.alloc(33, Buffer.from([1, 2, 3])))
})
