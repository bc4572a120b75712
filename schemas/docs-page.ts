import type { JsonSchema, OpenapiDocument, Operation, Parameter, Response } from '../lib/openapi/document.ts'
import { resolveReference } from '../lib/openapi/document.ts'

/** The whole style of the page, so that a Content-Security-Policy can name its hash. */
export const PAGE_STYLE = `
:root { color-scheme: light dark; --line: light-dark(#d0d7de, #3d444d); --soft: light-dark(#f3f5f7, #1b2027); --link: light-dark(#0550ae, #79b8ff) }
body { font: 1rem/1.55 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem 1.25rem 4rem; background: light-dark(#fff, #0f1318); color: light-dark(#1f2328, #e6edf3) }
a { color: var(--link) }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line) }
h3, code { font-family: ui-monospace, monospace; overflow-wrap: anywhere }
article { border: 1px solid var(--line); border-radius: .5rem; padding: 0 1rem 1rem; margin: 1rem 0 }
code { background: var(--soft); padding: .1em .3em; border-radius: .25em; font-size: .9em }
.wide { overflow-x: auto }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: .35rem .75rem .35rem 0; border-top: 1px solid var(--line) }
`

/** Renders a document as one page of HTML, without scripts and without anything to fetch. Links are relative to `/docs`. */
export function renderPage (document: OpenapiDocument): string {
  const { info, tags = [], components } = document
  const schemes = Object.entries(components.securitySchemes)
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
<p>For programs: <a href="docs/json">OpenAPI ${escape(document.openapi)} document</a>.</p>
</header>
<main>
<h2 id="credentials">Credentials</h2>
${table(['Scheme', 'Meaning'], schemes.map(([name, { description }]) => [code(name), prose(description)]))}
${tags.map(tag => renderTag(document, tag)).join('\n')}
<h2 id="refusals">Refusals</h2>
${Object.entries(components.responses).map(([name, response]) => renderRefusal(name, response)).join('\n')}
</main>
</body>
</html>
`
}

function renderTag (document: OpenapiDocument, { name, description }: { readonly name: string, readonly description: string }): string {
  const articles = Object.entries(document.paths).flatMap(([path, operations]) => Object.entries(operations)
    .filter(([, operation]) => operation.tags?.includes(name))
    .map(([method, operation]) => renderOperation(document, method, path, operation)))
  return `<h2>${escape(name)}</h2>\n<p>${prose(description)}</p>\n${articles.join('\n')}`
}

function renderOperation (document: OpenapiDocument, method: string, path: string, operation: Operation): string {
  const parameters = (operation.parameters ?? []).map(parameter => resolveReference<Parameter>(document, parameter))
  const answers = Object.entries(operation.responses).map(([status, response]) => renderAnswer(document, status, response))
  return `<article id="${escape(operation.operationId)}">
<h3>${escape(method.toUpperCase())} ${escape(path)}</h3>
<p>${prose(operation.description ?? operation.summary)}</p>
${(operation.security ?? []).length === 0 ? '<p>Open to everyone.</p>' : `<p>Credentials: ${operation.security!.map(renderSecurity).join(', or ')}.</p>`}
${parameters.length === 0 ? '' : table(['Parameter', 'Where', 'Meaning'], parameters.map(({ name, in: place, required, description }) => [code(name), escape(required ? `${place}, required` : place), prose(description)]))}
${table(['Status', 'Answer', 'Body'], answers)}
</article>`
}

function renderSecurity (requirement: Readonly<Record<string, readonly string[]>>): string {
  return Object.entries(requirement).map(([scheme, scopes]) => code(scheme) + (scopes.length === 0 ? '' : ` with ${scopes.map(code).join(' and ')}`)).join(' and ')
}

function renderAnswer (document: OpenapiDocument, status: string, response: Operation['responses'][string]): string[] {
  const { description, content = {} } = resolveReference<Response>(document, response)
  const [body] = Object.values(content)
  const link = '$ref' in response ? ` (<a href="#${anchor(response.$ref)}">more</a>)` : ''
  return [code(status), prose(description) + link, body ? renderSchema(document, body.schema) : '']
}

function renderRefusal (name: string, { description, headers = {}, content = {} }: Response): string {
  const examples = Object.values(content).flatMap(({ examples = {} }) => Object.entries(examples))
  return `<h3 id="${anchor(name)}">${escape(name)}</h3>
<p>${prose(description)}</p>
${table(['Header', 'Meaning'], Object.entries(headers).map(([header, { description }]) => [code(header), prose(description)]))}
${table(['Reason', 'Body'], examples.map(([reason, { value }]) => [code(reason), code(JSON.stringify(value))]))}`
}

/** A schema in one line: an object with its members and their types. */
function renderSchema (document: OpenapiDocument, schema: JsonSchema): string {
  const { type, properties, additionalProperties, items, anyOf } = schema.$ref ? resolveReference<JsonSchema>(document, schema as { $ref: string }) : schema
  if (anyOf) return anyOf.map(choice => renderSchema(document, choice)).join(' or ')
  if (items) return `list of ${renderSchema(document, items)}`
  if (additionalProperties) return `object of ${renderSchema(document, additionalProperties)}`
  if (properties) return Object.entries(properties).map(([name, member]) => `${code(name)} ${renderSchema(document, member)}`).join('<br>')
  return escape([type ?? 'anything'].flat().join(' or '))
}

function table (heads: readonly string[], rows: ReadonlyArray<readonly string[]>): string {
  const cells = (tag: string, texts: readonly string[]): string => `<tr>${texts.map(text => `<${tag}>${text}</${tag}>`).join('')}</tr>`
  return `<div class="wide"><table>\n<thead>${cells('th', heads)}</thead>\n<tbody>\n${rows.map(row => cells('td', row)).join('\n')}\n</tbody>\n</table></div>`
}

const anchor = (reference: string): string => escape(reference.slice(reference.lastIndexOf('/') + 1).toLowerCase())
const code = (text: string): string => `<code>${escape(text)}</code>`

/** Text in which words between back-quotes are shown as code. */
function prose (text = ''): string {
  return text.split('`').map((part, at) => at % 2 === 1 ? code(part) : escape(part)).join('')
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }

function escape (text = ''): string {
  return text.replace(/[&<>"]/g, char => ENTITIES[char]!)
}
