import { once } from 'node:events'
import { PassThrough, Readable } from 'node:stream'
import t from 'tap'
import { createExecutor, type ExecutedRequest, type OriginalRequest } from '../../../lib/gate/executor.ts'
import { GateError } from '../../../lib/gate/gate-error.ts'
import { parseGate } from '../../helpers/gate-section.ts'
import { MESSAGE_BOUNDS, readJson } from '../../../lib/gate/json-text.ts'
import { readMcpMessages } from '../../../lib/gate/mcp-message.ts'
import { createBodyReader, MAX_MESSAGE_BYTES, sendersOf } from '../../../lib/gate/message-body.ts'
import type { GateRule } from '../../../lib/gate/rule.ts'
import { rpcErrorBody } from '../../../lib/gate/rpc-error.ts'
import { createMessageMatcher } from '../../../lib/gate/rules.ts'

const MAX_HELD_BYTES = 64 * 1024 * 1024

const JSON_LINE = ['Content-Type', 'application/json']

/** What the messages call, or the sentence of the refusal. */
function read (body: string | Uint8Array, lines: readonly string[] = JSON_LINE) {
  try {
    const messages = readMcpMessages(readJson(Buffer.from(body), MESSAGE_BOUNDS), lines, false)
    return messages.map(({ method, name }) => ({ method, name }))
  } catch (error) {
    return error instanceof GateError && error.statusCode === 400 ? error.message : String(error)
  }
}

const call = (name: string, rest = '') =>
  `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${name}"${rest}}}`
const CALLED = [{ method: 'tools/call', name: 'a' }]

t.test('An object that names a member twice is found, at any depth and in any spelling.', async t => {
  const rows: ReadonlyArray<readonly [json: string, twice: boolean]> = [
    ['{"a":1,"a":2}', true],
    ['{"a":1,"b":2}', false],
    ['{"a":1,"\\u0061":2}', true],
    ['{"a":1,"\\\\u0061":2}', false],
    ['{"\\/":1,"/":2}', true],
    ['{"\\"":1,"\\u0022":2}', true],
    ['{"\\"":1,"\\\\\\"":2}', false],
    ['[{"a":1},{"a":2}]', false],
    ['[[{"x":{"a":1,"b":[],"a":{}}}]]', true],
    ['{"a":{"a":1},"b":[{"a":1}]}', false],
    ['{"b":{},"a":1,"b":2}', true],
    ['{"b":[1,"b"],"c":"b","d":2}', false],
    ['{"x":"a","a":"x"}', false],
    ['{"x":"\\",\\"x\\":1"}', false],
    ['{"x":"\\\\","x":1}', true],
    ['{ "a" : [ ] , "a" : 1 }', true],
    ['"a"', false],
    ['5', false],
    ['[]', false],
    ['{}', false],
    ['["a","a"]', false],
    ['{"__proto__":1,"__proto__":2}', true],
    ['{"__proto__":1,"constructor":2}', false]
  ]
  for (const [json, twice] of rows) {
    t.strictSame(
      read(`{"result":${json}}`),
      twice ? 'An object in the body has two members of one name.' : [{ method: undefined, name: undefined }],
      json
    )
  }
})

t.test('A megabyte of brackets is refused before it is parsed, and 64 levels and 20,000 values are not', async t => {
  const BEYOND = 'The body has too many levels or values.'
  const lists = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)
  // The message, its method, its params, and the list in there.
  const withEntries = (count: number) => `{"method":"m","params":{"a":[${Array(count).fill('0').join()}]}}`
  const rows: ReadonlyArray<readonly [title: string, body: string, expected: unknown]> = [
    ['64 levels', `{"result":${lists(63)}}`, [{ method: undefined, name: undefined }]],
    ['65 levels', `{"result":${lists(64)}}`, BEYOND],
    ['20,000 values', withEntries(19_996), [{ method: 'm', name: undefined }]],
    ['20,001 values', withEntries(19_997), BEYOND],
    ['a megabyte of brackets', '['.repeat(MAX_MESSAGE_BYTES), BEYOND],
    ['as many in a text', `{"result":"${'['.repeat(MAX_MESSAGE_BYTES - 20)}"}`, [{
      method: undefined,
      name: undefined
    }]]
  ]
  for (const [title, body, expected] of rows) t.strictSame(read(body), expected, title)
})

t.test('A body is read as messages only if every parser reads the same in it.', async t => {
  const utf16 = Buffer.from(call('a'), 'utf16le')
  const CHARACTERS = 'A method, a name or a member of a message has characters that some programs drop.'
  const rows: ReadonlyArray<readonly [title: string, body: string | Uint8Array, expected: unknown]> = [
    ['a call', call('a'), CALLED],
    ['escapes', '{"m\\u0065thod":"tools\\/call","params":{"n\\u0061me":"\\u0061"}}', CALLED],
    ['a name in another script', call('\u00e9'), [{ method: 'tools/call', name: '\u00e9' }]],
    ['white space around it', ` \r\n${call('a')}\n`, CALLED],
    ['a method without params', '{"method":"tools/list"}', [{ method: 'tools/list', name: undefined }]],
    ['a resource', '{"method":"resources/read","params":{"uri":"file:///a"}}', [{
      method: 'resources/read',
      name: 'file:///a'
    }]],
    ['a prompt', '{"method":"prompts/get","params":{"name":"p"}}', [{ method: 'prompts/get', name: 'p' }]],
    ['a method of an object', '{"method":"constructor","params":{"name":"a"}}', [{
      method: 'constructor',
      name: undefined
    }]],
    ['a response', '{"id":1,"result":{}}', [{ method: undefined, name: undefined }]],
    ['an error', '{"id":1,"error":{}}', [{ method: undefined, name: undefined }]],
    ['a batch', `[${call('a')},{"id":1,"result":1}]`, [...CALLED, { method: undefined, name: undefined }]],
    ['other members', '{"method":"tools/list","params":{"_meta":{"Name":1},"cursor":"x"},"trace":1}', [{
      method: 'tools/list',
      name: undefined
    }]],
    ['nothing', '', 'The body is not JSON.'],
    ['bytes behind it', `${call('a')}x`, 'The body is not JSON.'],
    ['a second message behind it', `${call('a')}${call('a')}`, 'The body is not JSON.'],
    ['a zero byte behind it', `${call('a')}\0`, 'The body is not JSON.'],
    ['a byte order mark', `\ufeff${call('a')}`, 'The body is not JSON.'],
    ['UTF-16', utf16, 'The body is not JSON.'],
    ['UTF-16 with its mark', Buffer.concat([Buffer.from([0xff, 0xfe]), utf16]), 'The body is not UTF-8.'],
    ['Latin-1', Buffer.from(call('\u00e9'), 'latin1'), 'The body is not UTF-8.'],
    [
      'an overlong form',
      Buffer.concat([Buffer.from('{"method":"'), Buffer.from([0xc0, 0xaf]), Buffer.from('"}')]),
      'The body is not UTF-8.'
    ],
    ['a comment', `/**/${call('a')}`, 'The body is not JSON.'],
    ['a comma at the end', '{"method":"tools/list",}', 'The body is not JSON.'],
    ['a tool twice', call('a', ',"name":"b"'), 'An object in the body has two members of one name.'],
    [
      'a tool twice in two spellings',
      call('a', ',"n\\u0061me":"b"'),
      'An object in the body has two members of one name.'
    ],
    [
      'an argument twice',
      call('a', ',"arguments":{"x":1,"x":2}'),
      'An object in the body has two members of one name.'
    ],
    ['an empty batch', '[]', 'The batch is empty.'],
    ['a batch in a batch', `[[${call('a')}]]`, 'A message is not an object.'],
    ['null', 'null', 'A message is not an object.'],
    ['a text', '"tools/call"', 'A message is not an object.'],
    ['neither method nor result', '{"id":1}', 'A message is neither a request nor a response.'],
    ['method and result', '{"method":"tools/list","result":{}}', 'A message is neither a request nor a response.'],
    ['method and error', '{"method":"tools/list","error":{}}', 'A message is neither a request nor a response.'],
    ['a method that is a list', '{"method":["tools/list"]}', 'The method of a message is not a text.'],
    ['a method that is null', '{"method":null}', 'The method of a message is not a text.'],
    ['params that are a list', '{"method":"tools/call","params":["a"]}', 'The params of a message are not an object.'],
    ['params that are null', '{"method":"tools/list","params":null}', 'The params of a message are not an object.'],
    ['a call without a name', '{"method":"tools/call","params":{}}', 'The name in a message is not a text.'],
    ['a call without params', '{"method":"tools/call"}', 'The name in a message is not a text.'],
    [
      'a name that is a list',
      '{"method":"tools/call","params":{"name":["a"]}}',
      'The name in a message is not a text.'
    ],
    [
      'a name that is a number, beside a method without names',
      '{"method":"tools/list","params":{"name":5}}',
      'The name in a message is not a text.'
    ],
    [
      'a resource without a uri',
      '{"method":"resources/read","params":{"name":"a"}}',
      'The name in a message is not a text.'
    ],
    ...['Method', 'METHOD', 'Params', 'param\u017f', 'JSONRPC', 'j\u017fonrpc', 'Id', 'Result', 're\u017fult', 'Error']
      .map(name =>
        [
          `the member ${name}`,
          `{"method":"tools/list","${name}":1}`,
          'A member differs from a known one by case alone.'
        ] as const
      ),
    ...['Name', 'NAME', 'Uri'].map(name =>
      [
        `the member ${name} of params`,
        call('a', `,"${name}":"b"`),
        'A member differs from a known one by case alone.'
      ] as const
    ),
    ...['\\u0000', '\\u001f', '\\u007f', '\\ud83d', '\\ude00', '\u0085'].flatMap(half => [
      [`the method with ${half}`, `{"method":"tools/list${half}"}`, CHARACTERS] as const,
      [`a tool with ${half}`, call(`a${half}`), CHARACTERS] as const,
      [`a resource with ${half}`, `{"method":"resources/read","params":{"uri":"a${half}"}}`, CHARACTERS] as const,
      [`a member with ${half}`, `{"method":"tools/list","method${half}":"tools/call"}`, CHARACTERS] as const,
      [`a member of params with ${half}`, call('a', `,"name${half}":"b"`), CHARACTERS] as const,
      [`an argument with ${half}`, call('a', `,"arguments":{"x${half}":"${half}"}`), CALLED] as const
    ]),
    ['a tool with a whole pair', call('\\ud83d\\ude00'), [{ method: 'tools/call', name: '\u{1f600}' }]],
    [
      'a second message with another case',
      `[${call('a')},{"Method":"tools/list","id":1}]`,
      'A member differs from a known one by case alone.'
    ]
  ]
  for (const [title, body, expected] of rows) t.strictSame(read(body), expected, title)
})

t.test('The headers of a message agree with its body, or are absent.', async t => {
  const base64 = (text: string) => `=?base64?${Buffer.from(text).toString('base64')}?=`
  const RESOURCE = '{"method":"resources/read","params":{"uri":"file:///a"}}'
  const METHOD = 'The Mcp-Method header does not say what the body says.'
  const NAME = 'The Mcp-Name header does not say what the body says.'
  const TYPE = 'The content type is not application/json.'
  const rows: ReadonlyArray<readonly [title: string, body: string, lines: readonly string[], expected?: string]> = [
    ['both', call('a'), ['mcp-method', 'tools/call', 'MCP-NAME', 'a']],
    ['another method', call('a'), ['mcp-method', 'tools/list'], METHOD],
    ['the method in another case', call('a'), ['mcp-method', 'Tools/call'], METHOD],
    ['an empty method', call('a'), ['mcp-method', ''], METHOD],
    ['the method twice', call('a'), ['mcp-method', 'tools/call', 'mcp-method', 'tools/call'], METHOD],
    ['another name', call('a'), ['mcp-name', 'b'], NAME],
    ['another name with another sign', call('a'), ['Mcp_Name', 'b'], NAME],
    ['another name with another sign beside the right one', call('a'), ['mcp-name', 'a', 'mcp.name', 'b'], NAME],
    ['another method with another sign', call('a'), ['mcp_method', 'tools/list'], METHOD],
    ['a content type with another sign beside the right one', call('a'), ['content_type', 'text/plain'], TYPE],
    ['an empty name', call('a'), ['mcp-name', ''], NAME],
    ['a name in base64', call('a'), ['mcp-name', base64('a')]],
    ['a name in another script in base64', call('\u00e9'), ['mcp-name', base64('\u00e9')]],
    ['a name in another script as it is', call('\u00e9'), ['mcp-name', 'Ã©'], NAME],
    ['another name in base64', call('a'), ['mcp-name', base64('b')], NAME],
    ['base64 without its padding', call('a'), ['mcp-name', '=?base64?YQ?='], NAME],
    ['base64 with other bits at its end', call('a'), ['mcp-name', '=?base64?YR==?='], NAME],
    [
      'a method in base64, which is another text for the upstream',
      call('a'),
      ['mcp-method', base64('tools/call')],
      METHOD
    ],
    ['the uri of a resource', RESOURCE, ['mcp-name', 'file:///a']],
    ['another uri', RESOURCE, ['mcp-name', 'file:///b'], NAME],
    ['a name for a method without names', '{"method":"tools/list"}', ['mcp-name', 'a'], NAME],
    ['the method of a response', '{"id":1,"result":1}', ['mcp-method', '=?base64?YQ?='], METHOD],
    [
      'the method of one message of a batch',
      `[${call('a')},{"method":"tools/list"}]`,
      ['mcp-method', 'tools/call'],
      METHOD
    ],
    ['the method of all messages of a batch', `[${call('a')},${call('b')}]`, ['mcp-method', 'tools/call']]
  ]
  for (const [title, body, lines, expected] of rows) {
    const result = read(body, [...JSON_LINE, ...lines])
    t.equal(typeof result === 'string' ? result : undefined, expected, title)
  }
  const types: ReadonlyArray<readonly [lines: readonly string[], expected?: string]> = [
    [[], TYPE],
    [['content-type', '']],
    [['content-type', 'text/plain'], TYPE],
    [['content-type', 'application/json-rpc'], TYPE],
    [['content-type', 'application/jsonp'], TYPE],
    [['content-type', 'Application/JSON']],
    [['content-type', 'application/json; charset=utf-8']],
    [['content-type', 'application/json;charset="UTF-8"']],
    [['content-type', 'application/json; charset=utf-16'], TYPE],
    [['content-type', 'application/json; charset="utf-8'], TYPE],
    [['content-type', 'application/json; x=1'], TYPE],
    [['content-type', 'application/json, text/plain'], TYPE],
    [[...JSON_LINE, ...JSON_LINE], TYPE],
    [[...JSON_LINE, 'content-encoding', 'gzip'], 'The body has a content coding.'],
    [[...JSON_LINE, 'Content-Encoding', 'identity'], 'The body has a content coding.']
  ]
  for (const [lines, expected] of types) {
    t.strictSame(read(call('a'), lines), lines[1] === '' ? TYPE : expected ?? CALLED, lines.join(' '))
  }
})

t.test('Of the rules for one path, the one that names a message most closely is found.', async t => {
  const target = (methods?: string[], tools?: string[]): GateRule => ({
    path: '/mcp',
    methods: ['POST'],
    requirement: undefined,
    audiences: undefined,
    timeoutSeconds: undefined,
    upgrade: false,
    observe: true,
    mcp: { methods, tools, onlyRuled: false }
  })
  const rules = [
    target(undefined, ['read_*', 'delete']),
    target(undefined, ['read_all_*', 'read_all_']),
    target(['tools/call', 'tools/list']),
    target()
  ]
  const find = createMessageMatcher(rules)
  const rows: ReadonlyArray<
    readonly [method: string | undefined, name: string | undefined, rule: number, tool: string | undefined]
  > = [
    ['tools/call', 'delete', 0, 'delete'],
    ['tools/call', 'read_x', 0, 'read_*'],
    ['tools/call', 'read_all_x', 1, 'read_all_*'],
    ['tools/call', 'read_all_', 1, 'read_all_'],
    ['tools/call', 'read_', 0, 'read_*'],
    ['tools/call', 'Delete', 2, undefined],
    ['tools/call', 'read', 2, undefined],
    ['tools/list', undefined, 2, undefined],
    ['initialize', undefined, 3, undefined],
    ['prompts/get', 'delete', 3, undefined],
    [undefined, undefined, 3, undefined]
  ]
  for (const [method, name, rule, tool] of rows) {
    const match = find({ method, name })
    t.strictSame([rules.indexOf(match!.rule), match!.tool], [rule, tool], `${method} ${name}`)
  }
  const few = createMessageMatcher([target(undefined, ['a'])])
  t.strictSame([
    few({ method: 'tools/call', name: 'b' }),
    few({ method: 'tools/list', name: undefined }),
    few({ method: undefined, name: undefined })
  ], [undefined, undefined, undefined])
  const plain = { ...target(), mcp: undefined }
  t.equal(
    createMessageMatcher([target(undefined, ['a']), plain])({ method: 'tools/list', name: undefined })?.rule,
    plain,
    'a rule that says nothing of messages'
  )
  t.equal(createMessageMatcher([target(undefined, ['*'])])({ method: 'tools/call', name: '' })?.tool, '*')
})

t.test('What a rule says about messages is checked at the start.', async t => {
  const problemsOf = async (...rules: object[]) =>
    (await parseGate({ rules: rules.map(rule => ({ path: '/mcp', ...rule })) })).problems
  const good: object[][] = [
    [{ mcp: {} }],
    [{ mcp: { methods: 'tools/list' } }],
    [{ mcp: { methods: ['tools/call'], tools: ['a'] } }],
    [{ methods: ['POST'], mcp: { tools: ['a', 'a*', '*'] } }],
    [{ mcp: { tools: ['a'] } }, { mcp: { tools: ['a*'] } }, { mcp: { methods: ['tools/call'] } }, { mcp: {} }],
    [{ mcp: { tools: ['a'] } }, { allow: 'anyone' }],
    [{ mcp: { tools: ['a'] } }, { methods: ['GET', 'DELETE'] }, { methods: ['POST'] }],
    [{ mcp: { tools: ['a'] }, audience: 'x' }, { mcp: {}, audience: 'x' }, {
      allow: 'anyone',
      mcp: { methods: ['initialize'] }
    }],
    [{ mcp: { tools: ['a'] }, audience: 'x' }, { methods: ['GET'] }],
    [{ path: '/:a', mcp: { tools: ['a'] } }, { path: '/:b', mcp: { tools: ['b'] } }]
  ]
  for (const rules of good) t.strictSame(await problemsOf(...rules), [], JSON.stringify(rules))
  const bad: ReadonlyArray<readonly [rules: object[], ...problems: string[]]> = [
    [[{ mcp: 5 }], 'gate.rules[0].mcp is 5; allowed: a section with methods or tools, or an empty one, {}'],
    [[{ mcp: [] }], 'gate.rules[0].mcp is []; allowed: a section with methods or tools, or an empty one, {}'],
    [[{ mcp: { tool: 'a' } }], 'gate.rules[0].mcp.tool is unknown; did you mean tools?'],
    [
      [{ mcp: { methods: ['tools/*'] } }],
      'gate.rules[0].mcp.methods is ["tools/*"]; allowed: a list of methods such as tools/list, each once and without *'
    ],
    [
      [{ mcp: { methods: [] } }],
      'gate.rules[0].mcp.methods is []; allowed: a list of methods such as tools/list, each once and without *'
    ],
    [
      [{ mcp: { tools: ['a*b'] } }],
      'gate.rules[0].mcp.tools is ["a*b"]; allowed: a list of names of tools, each once, with * at the end for all that begin so'
    ],
    [
      [{ mcp: { tools: ['a', 5] } }],
      'gate.rules[0].mcp.tools is ["a",5]; allowed: a list of names of tools, each once, with * at the end for all that begin so'
    ],
    [
      [{ mcp: { tools: [''] } }],
      'gate.rules[0].mcp.tools is [""]; allowed: a list of names of tools, each once, with * at the end for all that begin so'
    ],
    [
      [{ mcp: { tools: ['a', 'b', 'a'] } }],
      'gate.rules[0].mcp.tools is ["a","b","a"]; allowed: a list of names of tools, each once, with * at the end for all that begin so'
    ],
    [
      [{ mcp: { tools: ['a'], methods: ['tools/list'] } }],
      'gate.rules[0].mcp.tools is ["a"], which is for tools/call only, and that contradicts mcp.methods, which ' +
      'names "tools/list"'
    ],
    [
      [{ methods: ['GET'], mcp: { tools: ['a'] } }],
      'gate.rules[0].methods is ["GET"], but only POST carries the messages that mcp names'
    ],
    [
      [{ methods: ['POST', 'GET'], mcp: { methods: ['tools/list'] } }],
      'gate.rules[0].methods is ["POST","GET"], but only POST carries the messages that mcp names'
    ],
    [
      [{ mcp: { tools: ['a', 'b'] } }, { mcp: { tools: ['c', 'b'] } }],
      'gate.rules[1] ("/mcp") overlaps gate.rules[0]: both hold for POST /mcp, tools/call b'
    ],
    [
      [{ mcp: { tools: ['a*'] } }, { mcp: { tools: ['a*'] } }],
      'gate.rules[1] ("/mcp") overlaps gate.rules[0]: both hold for POST /mcp, tools/call a*'
    ],
    [
      [{ mcp: { tools: ['x'] } }, { mcp: { methods: ['tools/list'] } }, { mcp: { methods: ['tools/list'] } }],
      'gate.rules[2] ("/mcp") overlaps gate.rules[1]: both hold for POST /mcp, tools/list'
    ],
    [[{ mcp: {} }, { mcp: {} }], 'gate.rules[1] ("/mcp") overlaps gate.rules[0]: both hold for GET /mcp'],
    [
      [{ mcp: {} }, { mcp: { tools: ['a'] } }, { methods: ['POST', 'GET'] }],
      'gate.rules[2] ("/mcp") overlaps gate.rules[0]: both hold for POST /mcp'
    ],
    [
      [{ path: '/mcp/:a?', mcp: { tools: ['a'] } }, { mcp: { tools: ['b'] } }],
      'gate.rules[1] ("/mcp") overlaps gate.rules[0]: both hold for POST /mcp'
    ],
    [
      [{ mcp: { tools: ['a'] }, audience: 'x' }, { mcp: { tools: ['b'] } }],
      'gate.rules[1] ("/mcp") has another audience than gate.rules[0]: rules for the messages of one path share it'
    ]
  ]
  for (const [rules, ...problems] of bad) t.strictSame(await problemsOf(...rules), problems, JSON.stringify(rules))
})

t.test('All bodies together have a maximum size, and one that breaks off is of a client that has gone.', async t => {
  const read = createBodyReader({ maxBytes: MAX_MESSAGE_BYTES, timeoutMs: 5, after: () => () => {} })
  const broken = new Readable({ read () {} })
  const outcome = read(broken, new PassThrough())
  broken.destroy(new Error('reset'))
  await t.rejects(outcome, { name: 'GateError', statusCode: 499, message: 'The client has gone.' })

  const full = Buffer.alloc(MAX_MESSAGE_BYTES)
  const readFull = (answer = new PassThrough()) => read(Readable.from([full]), answer)
  const answers = Array.from({ length: MAX_HELD_BYTES / MAX_MESSAGE_BYTES }, () => new PassThrough())
  await Promise.all(answers.map(answer => readFull(answer)))
  await t.rejects(readFull(), { name: 'GateError', statusCode: 503, message: 'Too many bodies are being read.' })
  await once(answers[0]!.destroy(), 'close')
  t.equal((await readFull()).length, full.length, 'there is room for one more')
  await t.rejects(readFull(), { name: 'GateError', statusCode: 503 }, 'and only for one')
})

t.test('A subject that is the address of another sender takes nothing of the share of that address.', async t => {
  const [victim] = sendersOf('192.0.2.1', undefined)
  const others = sendersOf('192.0.2.2', { issuer: 'address', subject: '192.0.2.1' })
  t.equal(others.length, 2)
  t.equal(sendersOf(undefined, undefined).length, 0, 'behind a unix socket')
  t.notOk(others.some(({ name }) => name === victim!.name))
})

t.test('Large bodies are judged one after the other, each in a turn of the event loop of its own; small ones at once.', async t => {
  const { settings } = await parseGate({
    upstream: 'http://127.0.0.1:1',
    rules: [{ path: '/mcp', mcp: { tools: ['a'] }, allow: 'anyone' }]
  })
  let turn = 0
  const turns: number[] = []
  const execute = createExecutor<ExecutedRequest>({
    rules: settings!.rules,
    admissionOf: () => {
      throw new Error('nobody is asked')
    },
    isObserved: () => false,
    passRefused () {},
    onMessagesJudged: () => {
      turns.push(turn)
    }
  })
  const original = {
    method: 'POST',
    url: { ownPath: '/mcp' },
    message: { received: { rawHeaders: JSON_LINE } }
  } as unknown as OriginalRequest
  const judge = (body: string) =>
    new Promise<Error | undefined>(resolve =>
      execute({} as ExecutedRequest, { readOriginal: () => original, readBody: async () => Buffer.from(body) }, resolve)
    )
  const turnsOf = async (bytes: number) => {
    turns.length = 0
    const body = call('a').padEnd(bytes)
    t.strictSame(await Promise.all(Array.from({ length: 4 }, () => judge(body))), Array(4).fill(undefined))
    return new Set(turns).size
  }
  let isOver = false
  const next = () => {
    if (!isOver) {
      setImmediate(() => {
        turn++
        next()
      })
    }
  }
  next()
  t.strictSame([await turnsOf(16 * 1024), await turnsOf(16 * 1024 + 1), await turnsOf(MAX_MESSAGE_BYTES)], [1, 4, 4])
  isOver = true
})

t.test('A fault of the service is told by its status alone, from 500 on', async t => {
  const body = Buffer.from('{"jsonrpc":"2.0","id":1,"method":"ping"}')
  const answered = (status: number): unknown => JSON.parse(rpcErrorBody(new Error('words of its own'), status, body, null))
  const rows: ReadonlyArray<readonly [status: number, code: number, message: string]> = [
    [499, -32600, 'words of its own'],
    [500, -32603, 'Internal Server Error'],
    [502, -32603, 'Bad Gateway']
  ]
  for (const [status, code, message] of rows) {
    t.strictSame(answered(status), { jsonrpc: '2.0', id: 1, error: { code, message } }, String(status))
  }
})
