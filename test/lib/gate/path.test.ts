import t from 'tap'
import { originForm, verifyOneReading, withoutParameters } from '../../../lib/gate/path.ts'
import { createRules } from '../../../lib/gate/rules.ts'
import type { Refusal } from '../../../lib/refusal.ts'

t.test('A path of two readings is refused with its cause, and its nearest neighbour is not.', t => {
  const causeOf = (path: string): unknown => {
    try {
      verifyOneReading(path)
      return 'accepted'
    } catch (error) {
      return (error as Refusal).detail?.cause
    }
  }
  const rows: ReadonlyArray<{ path: string, cause: string, neighbour: string }> = [
    { path: '//a', cause: 'double_slash', neighbour: '/a/' },
    { path: '/a/..;x/b', cause: 'dot_segment', neighbour: '/a/..x;/b' },
    { path: '/a/.;', cause: 'dot_segment', neighbour: '/a/...;' },
    { path: '/a/.%3Bx', cause: 'dot_segment', neighbour: '/a/.a%3Bx' },
    { path: '/;', cause: 'path_parameter', neighbour: '/x;' },
    { path: '/a/%3Bx', cause: 'path_parameter', neighbour: '/a/x%3Bx' },
    { path: '/a%2Fb', cause: 'slash_escape', neighbour: '/a%252Fb' },
    { path: '/a%5Cb', cause: 'backslash', neighbour: '/a%5Bb' },
    { path: '/a%00', cause: 'control_character', neighbour: '/a%20' },
    { path: '/a%1F', cause: 'control_character', neighbour: '/a%21' },
    { path: '/a%7F', cause: 'control_character', neighbour: '/a%7E' },
    { path: '/%C3', cause: 'encoding', neighbour: '/%C3%BC' }
  ]
  for (const { path, cause, neighbour } of rows) t.strictSame([causeOf(path), causeOf(neighbour)], [cause, 'accepted'], path)
  t.end()
})

t.test('Without its parameters, a path is what programs may make of it.', t => {
  const rows: ReadonlyArray<readonly [path: string, readings: readonly string[]]> = [
    ['/a/b', []], ['/a;b', ['/a', '/a']], ['/a;b;c/d;/e', ['/a/d/e', '/a/d/e']], ['/a%3Bb/c', ['/a%3Bb/c', '/a/c']], ['/a;x/b%3By', ['/a/b%3By', '/a/b']], ['/a%253Bb', []]
  ]
  for (const [path, readings] of rows) t.strictSame(withoutParameters(path), readings, path)
  const rules = createRules(['/*', '/admin', '/x/a%3Bb', '/n/:id(^[0-9;]+$)'].map(path => ({ path, methods: undefined, requirement: undefined, audience: undefined, upgrade: false, mcp: undefined })))
  const chosen = (path: string): unknown => {
    try {
      return rules.choose('GET', path)?.rules[0].path
    } catch (error) {
      return (error as Refusal).detail?.cause
    }
  }
  const choices: ReadonlyArray<readonly [path: string, chosen: string | undefined]> = [
    ['/admin', '/admin'], ['/admin;', 'path_parameter'], ['/a;b', '/*'], ['/n/1;2', '/n/:id(^[0-9;]+$)'], ['/n/1;x', 'path_parameter'], ['/x;q/a%3Bb', 'path_parameter'], ['/a%2Fb', 'slash_escape']
  ]
  for (const [path, expected] of choices) t.equal(chosen(path), expected, path)
  t.end()
})

t.test('The upstream gets path and query unchanged.', t => {
  const causeOf = (target: string): unknown => {
    try {
      return originForm(target)
    } catch (error) {
      return (error as Refusal).detail
    }
  }
  const rows: ReadonlyArray<readonly [target: string, expected: unknown]> = [
    ['/a?b', '/a?b'], ['/\u00ff', '/\u00ff'], ['http://a/b?c', '/b?c'], ['HTTPS://a?b', '/?b'], ['http://a', '/'], ['/http://a/b', '/http://a/b'],
    ['/a#b', { cause: 'fragment' }], ['/a b', { cause: 'control_character' }], ['/a\u0000#', { cause: 'control_character' }], ['/\u0100', { cause: 'control_character' }]
  ]
  for (const [target, expected] of rows) t.strictSame(causeOf(target), expected, JSON.stringify(target))
  t.end()
})
