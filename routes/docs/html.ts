/** A table that scrolls by itself where it is too wide. Its texts are HTML. */
export function table (heads: readonly string[], rows: ReadonlyArray<readonly string[]>): string {
  const cells = (tag: string, texts: readonly string[]): string =>
    `<tr>${texts.map(text => `<${tag}>${text}</${tag}>`).join('')}</tr>`
  const body = rows.map(row => cells('td', row)).join('\n')
  return `<div class="wide"><table>\n<thead>${cells('th', heads)}</thead>\n<tbody>\n${body}\n</tbody>\n</table></div>`
}

/** A link to a place on the same page. */
export const link = (id: string | undefined, text: string): string => `<a href="#${escape(id)}">${escape(text)}</a>`
/** A heading that links to itself. */
export const heading = (level: number, id: string, text: string): string =>
  `<h${level} id="${escape(id)}">${link(id, text)}</h${level}>`
export const code = (text: string): string => `<code>${escape(text)}</code>`

/** Text in which words between back-quotes are shown as code. */
export function prose (text = ''): string {
  return text.split('`').map((part, at) => at % 2 === 1 ? code(part) : escape(part)).join('')
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }

/** Text that is not markup. */
export function escape (text = ''): string {
  return text.replace(/[&<>"]/g, char => ENTITIES[char]!)
}
