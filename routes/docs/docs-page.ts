import type { DescribedRule, OpenapiDocument, Response } from '../../lib/report/openapi/document.ts'
import { withinQuotes } from './curl-line.ts'
import {
  ADDRESS_MARK,
  anchor,
  guardOf,
  parameterTable,
  renderOperation,
  titleOf,
  type Entry
} from './docs-page-operation.ts'
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
@media (max-width: 40rem) {
body { padding: .75rem .75rem 3rem }
article { padding: 0 .75rem .75rem }
thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
tr, td { display: block }
tr { border-top: 1px solid var(--line); padding: .3rem 0 }
td { border: 0; padding: .05rem 0 }
td:empty { display: none }
}
`

/** The page for one client, made of a rendered one. The address is always within single quotes of a shell. */
export function placeAddress (page: string, address: string): string {
  return page.replaceAll(ADDRESS_MARK, escape(withinQuotes(address)))
}

/** The page of `/docs` as HTML, without scripts and without anything to fetch. Links are relative to `/docs`. */
export function renderPage (document: OpenapiDocument): string {
  const { info, components, 'x-rules': rules } = document
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
${rules ? `<li>${link('rules', 'Rules')}</li>\n` : ''}${
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
${parameterTable(Object.values(components.parameters))}
<p>The calls on this page take the access token from the variable <code>TOKEN</code> of the shell${schemes.some(([name]) => name === 'Bearer') ? '' : ', and the proof from <code>PROOF</code>. Each call needs a fresh one'}. One click selects a whole call.</p>
${schemes.some(([name]) => name === 'DPoP')
? '<p>In a clone of the service, <code>npm run call</code> gets a token ' +
  'that is bound to a key, makes the proof, ' + 'and explains a refusal.</p>'
: ''}
${rules ? renderRules(rules) : ''}
${sections.map(section => renderSection(document, section)).join('\n')}
${heading(2, 'refusals', 'Refusals')}
${Object.entries(components.responses).map(([name, response]) => renderRefusal(name, response)).join('\n')}
</main>
</body>
</html>
`
}

/** A gate has no operations of its own that its clients ask for. */
function renderRules (rules: readonly DescribedRule[]): string {
  const list = (words: readonly string[] | undefined, none: string): string => words?.map(code).join(', ') ?? none
  const rows = rules.map(({ path, methods, messages, needs }) => [
    code(path),
    list(methods, 'all'),
    list(messages, ''),
    prose(needs)
  ])
  return `${heading(2, 'rules', 'Rules')}
<p>Of the rules for a method, the one with the most specific path holds. Nothing passes without a rule.</p>
${table(['Path', 'Methods', 'Messages', 'Needs'], rows)}`
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
  const operations = entries.map(entry => renderOperation(document, entry)).join('\n')
  return `${heading(2, `tag-${name}`, name)}\n<p>${prose(description)}</p>\n${operations}`
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
