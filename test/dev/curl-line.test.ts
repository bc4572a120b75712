import t from 'tap'
import { readCurlLine } from '../../cli/read-curl.ts'
import { curlLine, headerWords, quote } from '../../dev/serve/curl-line.ts'

t.test('A curl line is read as the request of which it was written.', async t => {
  const headers = [['Authorization', 'Bearer a.b.c'], ['X-Odd', 'it\'s $HOME `x` \\ "y"']] as const
  for (const method of ['GET', 'HEAD', 'POST', 'DELETE']) {
    const line = curlLine(method, quote("https://api.example/it's?a=$b&c"), ...headerWords(headers))
    t.hasStrict(readCurlLine(line), {
      method,
      scheme: 'https',
      target: "/it's?a=$b&c",
      headers: [['Host', 'api.example'], ...headers]
    }, line)
  }
})

t.test('It begins as people write it.', async t => {
  t.equal(curlLine('GET', 'http://a/b'), 'curl -i http://a/b')
  t.equal(curlLine('HEAD', 'http://a/b'), 'curl -I http://a/b')
  t.equal(curlLine('PUT', 'http://a/b', ...headerWords([['X', 'y']])), "curl -i -X PUT http://a/b -H 'X: y'")
})
