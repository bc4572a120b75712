import { Ajv } from 'ajv'
import t from 'tap'
import { parse } from 'yaml'
import { GATE, LOGOUT, OPERATORS, REVOCATION, RULE, TRANSMITTER } from '../../lib/settings/section-specs.ts'
import type { Part } from '../../lib/settings/setting-spec.ts'
import { collectSettings } from '../../lib/settings/sources.ts'
import { validateSettings } from '../../lib/settings/validation.ts'
import { textOf } from '../helpers/documents.ts'
import { processSurroundings } from '../../server/surroundings.ts'

const isValid = new Ajv({ strict: true, allowUnionTypes: true, allErrors: true }).compile(
  JSON.parse(textOf('examples/settings/config.schema.json')) as object
)

/** Whether the service takes this file in its working directory. */
function isTaken (text: string) {
  const found = collectSettings({
    environment: {},
    readFile: name => name === 'config.yaml' ? text : undefined
  })
  return validateSettings(found, processSurroundings).then(() => true, () => false)
}

/** Sections with a hole for one part, and the part that the hole is for. */
const HOLES: Record<string, { part: Part, write: (key: string, value: string) => string }> =
  {
    gate: {
      part: GATE,
      write: (key, value) => `gate: { ${key === 'upstream' ? '' : 'upstream: "http://a:1", '}${key}: ${value} }`
    },
    rule: {
      part: RULE,
      write: (key, value) => `gate: { rules: [{ ${key === 'path' ? '' : 'path: /a, '}${key}: ${value} }] }`
    },
    mcp: {
      part: RULE.properties.mcp,
      write: (key, value) =>
        `gate: { rules: [{ path: /a, mcp: { ${key === 'arguments' ? 'tools: read_a, ' : ''}${key}: ${value} } }] }`
    },
    revocation: { part: REVOCATION, write: (key, value) => `revocation: { ${key}: ${value} }` },
    transmitter: {
      part: TRANSMITTER,
      write: (key, value) =>
        `revocation: { transmitters: [{ ${
          Object.entries({ issuer: 'https://a.example', audience: 'a', delivery: 'poll', clientSecret: 'a' }).filter((
            [name]
          ) => name !== key).map(([name, text]) => `${name}: "${text}"`).join(', ')
        }, ${key}: ${value} }] }`
    },
    logout: {
      part: LOGOUT,
      write: (key, value) => `revocation: { logout: { ${key === 'clientId' ? '' : 'clientId: a, '}${key}: ${value} } }`
    },
    operators: {
      part: OPERATORS,
      write: (key, value) => `revocation: { operators: { ${key === 'scope' ? '' : 'scope: a, '}${key}: ${value} } }`
    }
  }

const PARTS_WRITTEN = [
  '~',
  '1',
  '007',
  '"5"',
  'true',
  '"false"',
  'False',
  'a',
  '[a, b]',
  'https://a.example',
  '[https://a.example]',
  '{ a: [b], c: 1 }',
  '{ tools: read_a }',
  'GET',
  '[GET, POST]',
  'anyone',
  'client',
  'push',
  'client_secret_post',
  'RS256',
  '[RS256, ES256]',
  '"*"',
  '/-',
  '/a/b',
  'read_*',
  'tools/call',
  'memory',
  'refuse',
  '{ scope: a }',
  '{ env: A }',
  '{ file: a }',
  '{ email: mail }',
  '[{ path: /a }]',
  '[{ issuer: https://a.example, delivery: push, audience: a }]',
  '{ clientId: a }',
  '[{ clientId: 5 }]',
  'http://a:1'
]

t.test('The schema lets pass whatever the service accepts as a part of a section.', async t => {
  for (const [title, { part, write }] of Object.entries(HOLES)) {
    const taken = new Set<string>()
    const complaints: string[] = []
    for (const key of Object.keys(part.properties!)) {
      for (const value of PARTS_WRITTEN) {
        const text = write(key, value)
        if (!await isTaken(`idp: { domain: a.example, audience: a }\n${text}`)) {
          // A member of a rule without a value, which an editor marks unless only the service judges it.
          const isMarked = value !== '~' || !['rule', 'mcp'].includes(title) || part.properties![key]!.written ||
            !isValid(parse(text))
          if (!isMarked) complaints.push(`${text} is let pass`)
          continue
        }
        if (value !== '~') taken.add(key)
        if (!isValid(parse(text))) complaints.push(`${text}: ${JSON.stringify(isValid.errors)}`)
      }
    }
    t.strictSame(complaints, [], title)
    t.strictSame([...taken].sort(), Object.keys(part.properties!).sort(), `${title}: each part took a value`)
  }
})
