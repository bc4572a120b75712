import t from 'tap'
import { readCapture } from '../../cli/read-capture.ts'
import { recordedOutputs } from '../helpers/recorded.ts'

const recorded = recordedOutputs(t, import.meta.filename, 1_790_000_000)

function read (text: string) {
  const record = recorded(text.slice(0, 400))
  try {
    const { headers, ...rest } = readCapture(text)
    record(JSON.stringify({ ...rest, headers: headers.length > 99 ? headers.length : headers }))
  } catch (error) {
    record((error as Error).message.split('.', 1)[0]!)
  }
}

const json = (...entries: unknown[]) => read(JSON.stringify(entries))
const to = (url: unknown, more: object = {}) => ({ request: { method: 'GET', url, ...more } })
const GUARDED = { headers: [{ name: 'authorization', value: 'Bearer x' }] }

t.test('A curl line is read as curl would send it.', async () => {
  for (
    const words of [
      'a.example',
      'HTTPS://a.example:444/b?c#d',
      'x+y://a.example',
      'http://[',
      'httpx://a.example',
      '-X PUT -X PATCH a.example',
      '-I a.example',
      '-T file a.example',
      '-G a.example',
      '-G -d a=1 -d b=2 a.example',
      '-G -d a=1 a.example/?c=1',
      '-d a=1 -d b=2 a.example',
      '-d @file -d a a.example',
      '-F a=1 a.example',
      '--form-string a=1 a.example',
      '-I -T file -d a -X GET a.example',
      '--json {} -H "content-type: text/plain" a.example',
      '--json {} a.example',
      '--data-ascii a --data-binary b --data-raw c --data-urlencode d a.example',
      '--url a.example b.example',
      'a.example b.example',
      '-H "A: 1" -H "B:  2 " -H "C:" -H "D;" -H E -H " F: 1" -H "G:1" -H "H;1" -H "" a.example',
      "-H $'A: 1\n2' a.example",
      '-H "Host: b.example" a.example',
      '-u me:secret a.example',
      '-u me:secret -H "Authorization: Bearer x" a.example',
      '--oauth2-bearer x --oauth2-bearer y a.example',
      '--oauth2-bearer x -u me a.example',
      '--odd 1 http://a.example',
      '--odd 1 --url http://a.example http://b.example',
      '-H -X',
      '-X',
      '-sSkLv --compressed --no-buffer a.example',
      '-A 1 -e 2 -b 3 -K 4 -c 5 -E 6 -D 7 -m 8 -o 9 -x 10 -U 11 -r 12 -w 13 a.example',
      '--user-agent 1 --referer 2 --cookie 3 --config 4 --cookie-jar 5 --cert 6 --dump-header 7 --max-time 8 a.example',
      '--output 9 --proxy 10 --proxy-user 11 --range 12 --write-out 13 --upload-file 14 --form 15 --data 16 a.example',
      '--cacert 1 --capath 2 --cert-type 3 --ciphers 4 --connect-timeout 5 --connect-to 6 --interface 7 a.example',
      '--key 8 --key-type 9 --limit-rate 10 --max-redirs 11 --noproxy 12 --pass 13 --pinnedpubkey 14 a.example',
      '--proxy-header 15 --resolve 16 --retry 17 --retry-delay 18 --stderr 19 --tls-max 20 --trace 21 a.example',
      '--trace-ascii 22 --unix-socket 23 --url-query 24 --header A:1 --request PUT --user me --get --head a.example'
    ]
  ) read(`curl ${words}`)
  read('curl\ta.example')
  read('curls a.example')
  read('$ curl a.example')
  read('>curl a.example')
  read(' \ufeffcurl a.example')
  read('\ufeff\ufeffcurl a.example')
})

t.test('The words of a line are those of bash.', async () => {
  for (
    const header of [
      String.raw`'A: "\n$x'`,
      String.raw`"A: \"\$\`\\\n'"`,
      String.raw`A:\ \"b\'`,
      String.raw`$'A: \'\\\n\r\t\u00e9\u12345\x41\x4\q"'`,
      String.raw`'A: 1'"2"3\4$'5'`,
      'A:1$x$',
      "'A:1",
      '"A:1',
      'A:1""',
      '"A: 1\\\n2"'
    ]
  ) read(`curl -H ${header} a.example`)
  read('curl \\\n  -X PUT \\\r\n  a.example')
  read('curl -X "" a.example')
  read('curl a.example | jq .')
  read('curl a.example; curl b.example && curl c.example -H "Authorization: x" || curl d.example & echo curl')
  read('curl a.example ;;curl b.example')
  read('curl curl')
  read('cd x && curl a.example')
})

t.test('The output of curl is read with its answer; of several requests the last.', async () => {
  const request = '> GET /a HTTP/1.1\n> Host: a.example\n>\n'
  const answer = '< HTTP/1.1 401 Unauthorized\n< WWW-Authenticate: DPoP a\n< DPoP-Nonce: n \n< Date: '
  for (
    const text of [
      request,
      `${request}${answer}Mon, 21 Sep 2026 14:13:21 GMT`,
      `${request}${answer}soon`,
      `${request}<HTTP/1.1 500 x\n< HTTP/2 200\n< x: dpop-nonce: m\n< HTTP/1.1 40 x\n< xdate: 2026`,
      `* SSL connection using x\n${request}`,
      `* TLSv1.3 (OUT)\n${request}`,
      `* ALPN: x\n${request}`,
      `* [HTTP/2] [1] [:scheme: https]\n${request}`,
      `* [HTTP/2] [1] [:scheme: http]\n${request}`,
      `x* ALPN: x\nx* Trying y\n${request}`,
      `* ALPN: x\n* Trying y\n${request}`,
      `* ALPN: x\n*   Trying y\n${request}`,
      `* ALPN: x\n${request}* Trying y\n> PUT /b HTTP/2\n> a: 1\n\n< HTTP/2 204`,
      `${request}${request}${request}`,
      '> GET /a HTTP/1.1\n> what is this: 1\n> a : 1\n> b:\t 1 \t\n> :c: 1\n> d',
      '>GET /a HTTP/1.1\n>a: 1\n> GET /b HTTP/9',
      '* [HTTP/2] [1] x\n> GET /a HTTP/1.1',
      '* [HTTP/3] [1] x',
      'x> GET /a HTTP/1.1',
      '> GET /a HTTP/x',
      '> G\u00e9T /a HTTP/1.1',
      '> /a HTTP/1.1'
    ]
  ) read(text)
})

t.test('A HAR file is read by the entry that matters.', async () => {
  const url = 'https://a.example:444/b?c#d'
  const answered = (status: unknown, headers?: unknown) => ({ ...to(url), response: { status, headers } })
  read(JSON.stringify({ log: { entries: [to(url)] } }))
  read(JSON.stringify({ entries: [to(url)] }))
  read(JSON.stringify(to(url)))
  read(JSON.stringify({ url, method: 7 }))
  read('[')
  read('{"a')
  read('[]')
  read('7')
  json(null)
  json(to(7))
  json(to('xhttp://a.example'))
  json(to('http://['))
  json(to('HTTP://a.example'), null)
  json(null, to(url), to('data:,x'))
  json(to(url, GUARDED), to('https://b.example'))
  json(to(url, GUARDED), to('https://b.example', GUARDED), null)
  json(to(url, { headers: [{ name: 'x-authorization' }, { name: 'authorization2' }, null] }), to('https://b.example'))
  json(answered(401), to('https://b.example'))
  json(answered(402), to('https://b.example'))
  json(to(url, { method: undefined, headers: 7, postData: { text: 'x' } }))
  json(to(url, { headers: [{ name: 'Host', value: 'h' }, { name: 'A', value: 1 }, 'x', null], postData: { text: 7 } }))
  json(to(url, {
    headers: [
      [':method', 'PUT'],
      [':path', '/p'],
      [':scheme', 'http'],
      [':authority', 'h'],
      ['host', 'h'],
      ['Host', 'i'],
      [':scheme', 'https'],
      [':odd', 'x'.repeat(61)],
      [`:${'y'.repeat(60)}`, '']
    ].map(([name, value]) => ({ name, value }))
  }))
  json(answered('x', 7))
  json(answered(0, [null, { name: 'Date', value: 'Mon, 21 Sep 2026 14:13:21 GMT' }]))
  json({ ...to(url), response: { content: { text: 'a' } } })
  json({ ...to(url), response: { content: { text: 7 } } })
  json({ ...answered('204', [{ name: 'dpop-nonce', value: 'n' }]), startedDateTime: '2026-09-21T14:13:22.500Z' })
})

t.test('The text of a request is read with its body and its answer.', async () => {
  for (
    const text of [
      'GET /a HTTP/1.1',
      'GET https://a.example/b HTTP/1.1\nHost: a.example',
      'GET http://a.example/b HTTP/1.1\r\r\nHost: a.example\r\r\nA: 1',
      'GET /a HTTP/1.1 \r\nHost: a\r\n\r\n',
      'POST /a HTTP/1.1\nHost: a\n\n x \n\ny\n',
      'POST /a HTTP/1.1\nHost: a\n\n{}\nHTTP/1.1 204 No Content\nDPoP-Nonce: n',
      'POST /a HTTP/1.1\nHost: a\n\nHTTP/1.1 204\nHTTP/1.1 205\nDate: Mon, 21 Sep 2026 14:13:21 GMT',
      'POST /a HTTP/1.1\nHost: a\n  \nxHTTP/1.1 204\nHTTP/1.1 2',
      'POST /a HTTP/1.1\n: a\nwhat is: this\nA!#$%&\'*+.^_`|~0-9Z:b:c\n d: e\nHTTP/1.1 200 OK',
      'GET /a HTTP/1.1 x',
      'GET /a b HTTP/1.1',
      'GET /a HTTP/',
      'xx\nGET /a HTTP/1.1',
      'M-SEARCH * HTTP/1.1',
      'G=T /a HTTP/1.1',
      'GET /a HTTP/2\nPUT /b HTTP/1.1'
    ]
  ) read(text)
  for (const lines of [1999, 2000, 2001]) read(`GET /a HTTP/1.1\n${'b: c\n'.repeat(lines)}`)
  for (const lines of [12, 13, 20]) read(`GET /a HTTP/1.1\n${'b\n'.repeat(lines)}`)
})
