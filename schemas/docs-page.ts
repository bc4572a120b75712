import type { JsonSchema, OpenapiDocument, Operation, Parameter, Response } from '../lib/openapi/document.ts'
import { resolveReference } from '../lib/openapi/document.ts'
import { curlExample } from './curl-example.ts'
import { quote, withinQuotes } from './curl-line.ts'
import { code, escape, heading, link, prose, table } from './html.ts'

/** The whole style of the page, so that a Content-Security-Policy can name its hash. */
export const PAGE_STYLE = `
:root { color-scheme: light dark; --line: light-dark(#d0d7de, #3d444d); --soft: light-dark(#f3f5f7, #1b2027); --link: light-dark(#0550ae, #79b8ff) }
body { font: 1rem/1.55 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem 1.25rem 4rem; background: light-dark(#fff, #0f1318); color: light-dark(#1f2328, #e6edf3) }
a { color: var(--link) }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line) }
h3, code { font-family: ui-monospace, monospace; overflow-wrap: anywhere }
article { border: 1px solid var(--line); border-radius: .5rem; padding: 0 1rem 1rem; margin: 1rem 0 }
code { background: var(--soft); padding: .1em .3em; border-radius: .25em; font-size: .9em }
h2 a, h3 a { color: inherit; text-decoration: none }
h2 a:hover, h3 a:hover { text-decoration: underline }
:target { scroll-margin-top: 1rem; border-color: var(--link) }
pre { background: var(--soft); padding: .6rem .75rem; border-radius: .25em; overflow-x: auto; white-space: pre-wrap }
pre code { padding: 0; user-select: all }
nav ul { padding-left: 1.25rem }
.guard { border: 1px solid var(--line); border-radius: 1em; padding: .05em .6em; font-size: .85em; white-space: nowrap }
.open { border-style: dashed }
summary { cursor: pointer }
.wide { overflow-x: auto }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: .35rem .75rem .35rem 0; border-top: 1px solid var(--line) }
`

/**
 * Where the page has the address of the service. Only the address differs between clients. The rest is the same for
 * everyone and is made once. No text of a document holds this character.
 */
export const ADDRESS_MARK = '\u0000'

/** The page for one client, made of a rendered one. The address is always within single quotes of a shell. */
export function placeAddress (page: string, address: string): string {
  return page.replaceAll(ADDRESS_MARK, escape(withinQuotes(address)))
}

/** The page of `/docs` as HTML, without scripts and without anything to fetch. Links are relative to `/docs`. */
export function renderPage (document: OpenapiDocument): string {
  const { info, components } = document
  const schemes = Object.entries(components.securitySchemes)
  const sections = sectionsOf(document)
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escape(info.title)}: reference</title>
<style>${PAGE_STYLE}</style>
</head>
<body>
<header>
<h1>${escape(info.title)}</h1>
<p>${prose(info.description)}</p>
<p>Version ${escape(info.version)}. For programs: <a href="docs/json">OpenAPI ${escape(document.openapi)} document</a>.</p>
</header>
<nav aria-label="Contents">
<ul>
<li><a href="#credentials">Credentials</a></li>
${
    sections.map(({ name, entries }) =>
      `<li>${link(`tag-${name}`, name)}<ul>\n${
        entries.map(({ method, path, operation }) =>
          `<li>${link(operation.operationId, titleOf(method, path))} ${guardOf(operation)}</li>`
        ).join('\n')
      }\n</ul></li>`
    ).join('\n')
  }
<li><a href="#refusals">Refusals</a><ul>
${Object.keys(components.responses).map(name => `<li>${link(anchor(name), name)}</li>`).join('\n')}
</ul></li>
</ul>
</nav>
<main>
${heading(2, 'credentials', 'Credentials')}
${table(['Scheme', 'Meaning'], schemes.map(([name, { description }]) => [code(name), prose(description)]))}
<p>The calls on this page take the access token from the variable <code>TOKEN</code> of the shell${schemes.some(([name]) => name === 'Bearer') ? '' : ', and the proof from <code>PROOF</code>. Each call needs a fresh one'}. One click selects a whole call.</p>
${schemes.some(([name]) => name === 'DPoP') ? '<p>In a clone of the service, <code>npm run call</code> gets a token that is bound to a key, makes the proof, ' + 'and explains a refusal.</p>' : ''}
${sections.map(section => renderSection(document, section)).join('\n')}
${heading(2, 'refusals', 'Refusals')}
${Object.entries(components.responses).map(([name, response]) => renderRefusal(name, response)).join('\n')}
</main>
</body>
</html>
`
}

interface Entry {
  readonly method: string
  readonly path: string
  readonly operation: Operation
}
interface Section {
  readonly name: string
  readonly description?: string
  readonly entries: readonly Entry[]
}

/** The operations by their first tag: first the tags that the document describes, then the others. */
function sectionsOf ({ tags = [], paths }: OpenapiDocument): Section[] {
  const entries = Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => ({ method, path, operation }))
  )
  const tagOf = ({ operation }: Entry): string => operation.tags?.[0] ?? 'Other'
  const described = new Map(tags.map(({ name, description }) => [name, description]))
  return [...new Set([...described.keys(), ...entries.map(tagOf)])]
    .map(name => ({ name, description: described.get(name), entries: entries.filter(entry => tagOf(entry) === name) }))
}

function renderSection (document: OpenapiDocument, { name, description, entries }: Section): string {
  return `${heading(2, `tag-${name}`, name)}\n<p>${prose(description)}</p>\n${entries.map(entry => renderOperation(document, entry)).join('\n')}`
}

function renderOperation (document: OpenapiDocument, { method, path, operation }: Entry): string {
  const { operationId, summary, description, security = [], requestBody, 'x-body-credentials': signed } = operation
  const parameters = (operation.parameters ?? []).map(parameter => resolveReference<Parameter>(document, parameter))
  // The answers of guards are the same everywhere: they stand once, at the end.
  const answers = Object.entries(operation.responses).filter(([, response]) => !('$ref' in response)).map((
    [status, response]
  ) => renderAnswer(document, status, response))
  const refusals = Object.entries(operation.responses).flatMap(([status, response]) =>
    '$ref' in response ? [link(anchor(String(response.$ref)), status)] : []
  )
  const ofDpop = security.find(requirement => 'DPoP' in requirement)?.['DPoP']
  const call = curlExample(document, { method, path, operation, address: ADDRESS_MARK })
  return `<article id="${escape(operationId)}">
<h3>${link(operationId, titleOf(method, path))}</h3>
<p>${guardOf(operation)}</p>
${[summary, description].filter(text => text !== undefined).map(text => `<p>${prose(text)}</p>`).join('\n')}
${
    security.length === 0
      ? `<p>${signed === undefined ? 'Open to everyone' : `Credentials: in the body, ${escape(signed)}`}.</p>`
      : `<p>Credentials: ${security.map(renderSecurity).join(', or ')}.</p>`
  }
<pre><code>${escape(call)}</code></pre>
${ofDpop ? `<pre><code>${escape(dpopLine(method, path, ofDpop))}</code></pre>\n` : ''}${
    parameters.length === 0
      ? ''
      : table(
        ['Parameter', 'Where', 'Meaning'],
        parameters.map((
          { name, in: place, required, description }
        ) => [code(name), escape(required ? `${place}, required` : place), prose(description)])
      )
  }
${requestBody === undefined ? '' : table(['Body', 'Members'], Object.entries(requestBody.content).map(([type, { schema }]) => [code(type), renderSchema(document, schema)]))}
${answers.length === 0 ? '' : table(['Status', 'Answer', 'Body'], answers)}
${refusals.length === 0 ? '' : `<p>Refusals: ${refusals.join(', ')}.</p>`}
</article>`
}

/** Who may call, in a few words: what the eye looks for. */
function guardOf ({ security = [], 'x-requirements': further = [], 'x-body-credentials': signed }: Operation): string {
  if (signed !== undefined) return '<span class="guard">signed body</span>'
  if (security.length === 0) return '<span class="guard open">open</span>'
  const sets = [
    ...new Set(
      security.flatMap(requirement => Object.values(requirement)).filter(scopes => scopes.length > 0).map(scopes =>
        scopes.join(' and ')
      )
    )
  ]
  const words = [
    security.some(requirement => Object.keys(requirement).length === 0) ? 'token, optional' : 'token',
    ...sets.length > 0 ? [sets.join(' or ')] : [],
    ...further.some(requirement =>
      Object.keys(requirement).some(member => !['scope', 'anyScope', 'optional'].includes(member))
    )
      ? ['more']
      : []
  ]
  return words.map(word => `<span class="guard">${escape(word)}</span>`).join(' ')
}

/** The call with DPoP: a tool makes the proof. */
function dpopLine (method: string, path: string, scopes: readonly string[]): string {
  return `npm run call -- --url '${ADDRESS_MARK}' --dpop ${method.toUpperCase()} ` +
    quote(path).replace(/\{\w+\}/g, '7') + (scopes.length > 0 ? ` --scope ${quote(scopes.join(' '))}` : '')
}

function renderSecurity (requirement: Readonly<Record<string, readonly string[]>>): string {
  if (Object.keys(requirement).length === 0) return 'none'
  return Object.entries(requirement).map(([scheme, scopes]) =>
    code(scheme) + (scopes.length === 0 ? '' : ` with ${scopes.map(code).join(' and ')}`)
  ).join(' and ')
}

function renderAnswer (document: OpenapiDocument, status: string, response: Operation['responses'][string]): string[] {
  const { description, content = {} } = resolveReference<Response>(document, response)
  const [body] = Object.values(content)
  const example = body?.example === undefined
    ? ''
    : `<br>for example ${code(typeof body.example === 'string' ? body.example : JSON.stringify(body.example))}`
  return [code(status), prose(description), body ? renderSchema(document, body.schema) + example : '']
}

/** The bodies differ only in their sentence, so one stands for all. */
function renderRefusal (name: string, { description, headers = {}, content = {} }: Response): string {
  const examples = Object.values(content).flatMap(({ examples = {} }) => Object.entries(examples))
  return `${heading(3, anchor(name), name)}
<p>${prose(description)}</p>
${table(['Header', 'Meaning'], Object.entries(headers).map(([header, { description }]) => [code(header), prose(description)]))}
${
    examples.length === 0
      ? ''
      : `<p>Body: ${code(JSON.stringify(examples[0]![1].value))}</p>\n<details>\n<summary>${examples.length} ` +
        'reasons, each with its ' +
        `sentence</summary>\n${table(['Reason', 'Sentence'], examples.map(([reason, { value }]) => [code(reason), escape(sentenceOf(value))]))}\n</details>`
  }`
}

/** What a body says in words: `message`, or `detail` where `api.errorBody` is `detailed`. */
function sentenceOf (value: unknown): string {
  const { message, detail } = value as { message?: string, detail?: string }
  return String(message ?? detail)
}

/** A schema in one line: an object with its members and their types. */
function renderSchema (document: OpenapiDocument, schema: JsonSchema): string {
  const { type, properties, additionalProperties, items, anyOf } = schema.$ref
    ? resolveReference<JsonSchema>(document, schema as { $ref: string })
    : schema
  if (anyOf) return anyOf.map(choice => renderSchema(document, choice)).join(' or ')
  if (items) return `list of ${renderSchema(document, items)}`
  if (additionalProperties) return `object of ${renderSchema(document, additionalProperties)}`
  if (properties) {
    return Object.entries(properties).map(([name, member]) => `${code(name)} ${renderSchema(document, member)}`).join(
      '<br>'
    )
  }
  return escape([type ?? 'anything'].flat().join(' or '))
}

const titleOf = (method: string, path: string): string => `${method.toUpperCase()} ${path}`
const anchor = (reference: string): string => `refusal-${reference.slice(reference.lastIndexOf('/') + 1).toLowerCase()}`
