import t from 'tap'
import { createLenientRouter, specificityOf } from '../../../lib/gate/lenient-path.ts'

/** By rule: the paths that some program takes for it. */
const ROWS: Readonly<Record<string, readonly string[]>> = {
  '/n': [
    '/n.o'
  ],
  '/h/:p/sub': [
    '/h/x/SUB'
  ],
  '/i/sub': [
    '/i/SUB'
  ],
  '/j/:p/a::b': [
    '/j/1/A:B'
  ],
  '/k/a::b': [
    '/k/A:B'
  ],
  '/a/b': [
    '/a/b', '/A/B', '/a/b/', '/a%2Fb', '/%61/b', '/a/b.json', '/a/b.tar.gz', '/a/b.', '/a/b.c/', '/a/b.c.d/',
    '/a/b%2Ec'
  ],
  '/Orders/:id': [
    '/orders/7', '/ORDERS/7', '/orders/7.json', '/orders/7.a.b/', '/or%64ers/%C4%B1'
  ],
  '/x.json': [
    '/x.json', '/X.JSON', '/x.json.gz'
  ],
  '/f-:name.txt': [
    '/f-1.txt', '/F-1.TXT'
  ],
  '/g/:a(^\\d+$)z/Tail': [
    '/g/1z/tail', '/G/1Z/TAIL'
  ],
  '/:p-End/Sub': [
    '/9-end/sub', '/9-END/SUB'
  ],
  '/:q(^[a-z]$)MiX:r(^\\d$)Up': [
    '/bmix3up'
  ],
  '/caf%C3%A9/:id': [
    '/caf%C3%A9/1', '/CAF%C3%89/1'
  ],
  '/q%3Fx': [
    '/q%3fx', '/q?x'
  ],
  '/::lit': [
    '/:lit', '/%3Alit'
  ],
  '/star%2Ax': [
    '/star%2Ax', '/star*x', '/%C5%BFtar%2Ax'
  ],
  '/': [
    '/'
  ],
  '/dir/': [
    '/dir', '/dir/', '/d%C4%B0r', '/d%C4%B1r'
  ],
  '/w/*': [
    '/w', '/w/', '/w/a/b'
  ],
  '/.well/x': [
    '/.well/x', '/.well/x.y'
  ],
  '/é-:x-É': [
    '/é-1-é', '/%C3%A9-1-%C3%89'
  ]
}
const NONE = [
  '/n.o/b', '/a/bx', '/a/b//', '/a/.b', '/x', '/x.', '/f-1', '/g/1y/tail', '/BMIX3UP', '/bmix33up', '/cafe/1',
  '/.well', '/ord%C5%BFers', '/w%C4%B0', '/w%C4%B1', '/%C4%B0', '/star%23x', '/a.b/b', '/x%25', '/.a/b'
]

t.test('A path is taken for that of a rule if any program may read it so, and the closer rule holds', async t => {
  const router = createLenientRouter<string>()
  for (const rule of [
    '/n', '/h/:p/:q(^[A-Za-z]+$)', '/h/:p/sub', '/i/:q(^[A-Za-z]+$)', '/i/sub', '/j/:p/:q(^[aA].[bB]$)',
    '/j/:p/a::b', '/k/:q(^[aA].[bB]$)', '/k/a::b', '/a/b', '/Orders/:id', '/x.json', '/f-:name.txt',
    '/g/:a(^\\d+$)z/Tail', '/:p-End/Sub', '/:q(^[a-z]$)MiX:r(^\\d$)Up', '/caf%C3%A9/:id', '/q%3Fx', '/::lit',
    '/star%2Ax', '/', '/dir/', '/w/*', '/.well/x', '/é-:x-É'
  ]) router.add('GET', rule, rule)
  for (const [rule, paths] of Object.entries(ROWS)) {
    for (const path of paths) t.strictSame([...new Set(router.find('GET', path))], [rule], path)
  }
  t.strictSame(NONE.filter(path => router.find('GET', path).length > 0), [])
  t.strictSame(router.find('POST', '/a/b'), [])
  const rooted = createLenientRouter<string>()
  for (const path of ['/', '/*']) rooted.add('GET', path, path)
  t.strictSame([...new Set(['/', '/a'].flatMap(path => rooted.find('GET', path)))], ['/', '/*'])
  t.strictSame([...new Set(rooted.find('GET', '/'))], ['/'], 'a path is not empty')
})

t.test('Fixed signs are more specific than the end of a path, a slash, an expression, a parameter and the rest', async t => {
  t.strictSame(Object.fromEntries([
    '/a/b', '/a/', '/a/*', '/a/:b', '/a/:b(^x$)', '/', '/:a-b', '/caf%C3%A9', '/é', '/::x', '/a.b/c/'
  ].map(path => [path, specificityOf(path)])), {
    '/a/b': '35354',
    '/a/': '354',
    '/a/*': '35304',
    '/a/:b': '35314',
    '/a/:b(^x$)': '35324',
    '/': '4',
    '/:a-b': '31554',
    '/caf%C3%A9': '355554',
    '/é': '354',
    '/::x': '3554',
    '/a.b/c/': '3555354'
  })
})
