import t from 'tap'
import { readCurlLine } from '../../cli/read-curl.ts'
import { curlLine, quote } from '../../dev/serve/curl-line.ts'

t.test('A curl line is read as the request of which it was written.', async t => {
  const headers = { Authorization: 'Bearer a.b.c', 'X-Odd': 'it\'s $HOME `x` \\ "y"' }
  for (const method of ['GET', 'HEAD']) {
    const line = curlLine(method, quote("https://api.example/it's?a=$b&c"), headers)
    t.hasStrict(readCurlLine(line), {
      method,
      scheme: 'https',
      target: "/it's?a=$b&c",
      headers: [['Host', 'api.example'], ...Object.entries(headers)]
    }, line)
  }
})

t.test('It begins as people write it.', async t => {
  t.equal(curlLine('GET', 'http://a/b', { X: 'y' }), "curl -i http://a/b -H 'X: y'")
  t.equal(curlLine('HEAD', 'http://a/b', {}), 'curl -I http://a/b')
})
