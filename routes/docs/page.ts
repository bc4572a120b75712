import type { DescribedRule, OpenapiDocument, Operation } from '../../lib/report/openapi/document.ts'

/** The whole style of the page, so that a Content-Security-Policy can name its hash. */
export const PAGE_STYLE = `
:root { color-scheme: light dark; --line: light-dark(#d0d7de, #3d444d); --soft: light-dark(#f3f5f7, #1b2027) }
body { font: 1rem/1.55 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem 1.25rem 4rem; background: light-dark(#fff, #0f1318); color: light-dark(#1f2328, #e6edf3) }
a { color: light-dark(#0550ae, #79b8ff) }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line) }
code { font-family: ui-monospace, monospace; overflow-wrap: anywhere; background: var(--soft); padding: .1em .3em; font-size: .9em }
.wide { overflow-x: auto }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: .35rem .75rem .35rem 0; border-top: 1px solid var(--line) }
@media (max-width: 40rem) {
thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
tr, td { display: block }
tr { border-top: 1px solid var(--line); padding: .3rem 0 }
td { border: 0; padding: .05rem 0 }
}
`

/**
 * The page of `/docs` as HTML, without scripts and without anything to fetch: who may call what. Parameters and bodies
 * are in the document itself.
 */
export function renderPage (document: OpenapiDocument): string {
  const { info, tags = [], paths, components, 'x-rules': rules } = document
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      tag: operation.tags?.[0] ?? 'Other',
      row: [code(`${method.toUpperCase()} ${path}`), needsOf(operation), wordsOf(operation)]
    }))
  )
  const descriptions = new Map(tags.map(({ name, description }) => [name, description]))
  const sections = [...new Set([...descriptions.keys(), ...operations.map(({ tag }) => tag)])].map(name =>
    section(
      name,
      descriptions.get(name),
      ['Operation', 'Needs', 'Meaning'],
      operations.filter(({ tag }) => tag === name).map(({ row }) => row)
    )
  )
  const described = (parts: Readonly<Record<string, { readonly description?: string }>>) =>
    Object.entries(parts).map(([name, { description }]) => [code(name), prose(description)])
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escape(info.title)}: reference</title>
<style>${PAGE_STYLE}</style>
</head>
<body>
<main>
<h1>${escape(info.title)}</h1>
<p>${prose(info.description)}</p>
<p>Version ${escape(info.version)}. For programs: <a href="docs/json">OpenAPI ${escape(document.openapi)} document</a>.</p>
${section('Credentials', undefined, ['Scheme', 'Meaning'], described(components.securitySchemes))}
${rules ? renderRules(rules) : ''}
${sections.join('\n')}
${section('Refusals', undefined, ['Answer', 'Meaning'], described(components.responses))}
</main>
</body>
</html>
`
}

/** A gate has no operations of its own that its clients ask for. */
function renderRules (rules: readonly DescribedRule[]): string {
  const list = (words: readonly string[] | undefined, none: string) => words?.map(code).join(', ') ?? none
  return section(
    'Rules',
    'Of the rules for a method, the one with the most specific path holds. Nothing passes without a rule.',
    ['Path', 'Methods', 'Messages', 'Needs'],
    rules.map(({ path, methods, messages, needs }) =>
      [code(path), list(methods, 'all'), list(messages, ''), prose(needs)]
    )
  )
}

/** Each way of calling it, with the scopes that it takes. */
function needsOf ({ security = [], 'x-body-credentials': signed }: Operation): string {
  if (signed !== undefined) return `in the body: ${escape(signed)}`
  if (security.length === 0) return 'nothing'
  const ways = security.map(way =>
    Object.entries(way).map(([scheme, scopes]) => [scheme, ...scopes].map(code).join(' ')).join(' and ') || 'nothing'
  )
  return ways.join(', or ')
}

const wordsOf = ({ summary, description }: Operation) =>
  prose([summary, description].filter(Boolean).join(': '))

/** A heading with a table, which scrolls by itself where it is too wide. Its cells are HTML. */
function section (
  name: string,
  text: string | undefined,
  heads: readonly string[],
  rows: ReadonlyArray<readonly string[]>
): string {
  const cells = (tag: string, texts: readonly string[]) =>
    `<tr>${texts.map(cell => `<${tag}>${cell}</${tag}>`).join('')}</tr>`
  return `<h2>${escape(name)}</h2>
<p>${prose(text)}</p>
<div class="wide"><table>
<thead>${cells('th', heads)}</thead>
<tbody>
${rows.map(row => cells('td', row)).join('\n')}
</tbody>
</table></div>`
}

const code = (text: string) => `<code>${escape(text)}</code>`

/** Text in which words between back-quotes are shown as code. */
function prose (text = ''): string {
  return text.split('`').map((part, at) => at % 2 === 1 ? code(part) : escape(part)).join('')
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }

/** Text that is not markup. */
const escape = (text: string) => text.replace(/[&<>"]/g, char => ENTITIES[char]!)
