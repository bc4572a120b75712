/** A row of a table in Markdown. */
export const tableRow = cells => `| ${cells.join(' | ')} |`

/** A table in Markdown. */
export const table = (head, rows) => [head, head.map(() => '---'), ...rows].map(tableRow).join('\n')

export const us = value => value < 99.5 ? value.toFixed(1) : value.toFixed(0)
export const mb = bytes => (bytes / 1e6).toFixed(0)
export const count = value => Math.round(value).toLocaleString('en')
