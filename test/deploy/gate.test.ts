import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { isWithheldName } from '../../lib/gate/headers.ts'
import { root } from '../helpers/documents.ts'

const read = (file: string): string => readFileSync(join(root, 'deploy', 'gate', file), 'utf8')

/** Traefik writes these itself, in place of what a client sends. */
const OF_TRAEFIK = ['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip']

t.test('The pattern for Traefik removes the headers that the gate itself withholds, except those that Traefik writes.', async t => {
  const pattern = parse(read('traefik.yaml')).http.middlewares.holdfast.forwardAuth.authResponseHeadersRegex as string
  const [, text] = /^\(\?i\)(.*)$/.exec(pattern)!
  const taken = new RegExp(text!, 'i')
  // The names of nginx.conf: nginx can take away whole names only.
  const named = [...read('nginx.conf').matchAll(/^ *proxy_set_header (\S+)/gm)].map(([, name]) => name!.toLowerCase())
  t.ok(named.includes('x-forwarded-preferred-username'))
  const withheld = [
    'x-forwarded-',
    'x-forwarded-x',
    'x-auth-claim-role',
    'x.auth.subject',
    'x_forwarded_for',
    'forwarded~',
    ...named
  ].filter(isWithheldName)
  // One sign more, less or other than those that stay.
  const near = OF_TRAEFIK.filter(name => name.startsWith('x-forwarded-')).flatMap(name => {
    const start = 'x-forwarded-'.length
    const at = Array.from({ length: name.length - start + 1 }, (_, n) => start + n)
    return at.flatMap(
      n => [
        name.slice(0, n) + name.slice(n + 1),
        ...['a', 'o', 't', '-', '_'].flatMap(
          sign => [name.slice(0, n) + sign + name.slice(n), name.slice(0, n) + sign + name.slice(n + 1)]
        )
      ]
    )
  }).filter(isWithheldName)
  for (const name of [...withheld, ...near]) t.equal(taken.test(name), !OF_TRAEFIK.includes(name), name)
  t.ok(near.length > 100)
  for (
    const name of [
      'accept',
      'x-request-id',
      'x-forward',
      'proxy-x',
      'x-forwarde-user',
      'authority',
      'remote-users',
      'x-original-urls',
      'cookie',
      'content-length',
      'transfer-encoding',
      'sec-websocket-key',
      'traceparent',
      ...OF_TRAEFIK
    ]
  ) t.notOk(taken.test(name), `${name} stays`)
})
