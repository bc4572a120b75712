import { USERS } from './users.ts'

/** The page has no script and loads nothing. */
export const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy':
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; " +
    "frame-ancestors 'none'",
  'cache-control': 'no-store'
}

const STYLE = `
:root { color-scheme: light dark; --ink: #1b2430; --quiet: #566273; --line: #d3dae3; --panel: #fff; --paper: #f4f6f9; --accent: #1d5fd1 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --quiet: #a3afbf; --line: #37424f; --panel: #1a212b; --paper: #10151c; --accent: #82b1ff } }
* { box-sizing: border-box }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1rem; background: var(--paper); color: var(--ink); font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif }
main { width: min(28rem, 100%); padding: 1.5rem; border: 1px solid var(--line); border-radius: .75rem; background: var(--panel) }
h1 { margin: 0 0 .25rem; font-size: 1.35rem; line-height: 1.25 }
p { margin: 0; color: var(--quiet) }
ul { display: grid; gap: .5rem; margin: 1rem 0; padding: 0; list-style: none }
a { color: var(--accent) }
li a { display: block; padding: .65rem .9rem; border: 1px solid var(--line); border-radius: .5rem; color: inherit; text-decoration: none }
li a:hover { border-color: var(--accent) }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px }
b, small { display: block }
small { color: var(--quiet); font-size: .85rem }
code { overflow-wrap: anywhere; font-size: .9em }`

/** The page to choose a user. A choice is a link to `action`, because the content security policy allows no forms. */
export function loginPage (action: string, clientId: string): string {
  const users = USERS.map(({ id, name, permissions }) =>
    `<li><a href="${action}?user=${id}"><b>${name}</b><small>${permissions.join(', ') || 'no permissions'}</small></a></li>`
  )
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<title>Log in to the local provider</title><style>${STYLE}</style></head>
<body><main>
<h1>Who logs in?</h1>
<p><code>${escapeHtml(clientId)}</code> asks. These users are made up, and need no password.</p>
<ul>${users.join('')}</ul>
<p><a href="${action}?user=">Cancel</a></p>
</main></body></html>`
}

const escapeHtml = (text: string) => text.replace(/[&<>"']/g, character => `&#${character.charCodeAt(0)};`)
