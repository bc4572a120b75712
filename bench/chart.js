const WIDTH = 860
const LABEL = 270
const BAR = 18
const GAP = 8
const SCHEMES = [['bearer', 'Bearer: a token seen before'], ['dpop', 'DPoP: a fresh proof for each request']]

const escape = text => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
const text = (x, y, content, more = '') => `<text x="${x}" y="${y}" ${more}>${escape(content)}</text>`

const colourOf = ({ id }) =>
  id.startsWith('holdfast')
    ? ['#0a7d55', '#7cc9ab']
    : id.startsWith('bare') || id.startsWith('floor')
      ? ['#5a6270', '#b9c0cb']
      : ['#b2571b', '#e8b78f']

/**
 * Horizontal bars of CPU a request, one block for each scheme on a scale of its own; the dark part is the main thread.
 * On a white ground, so that it reads the same on a light page and a dark one.
 */
export const chart = (rows, { node, openssl }) => {
  const parts = []
  let y = 34
  for (const [scheme, title] of SCHEMES) {
    const list = rows.filter(row => row.scheme === scheme).sort((a, b) => a.cpuUs - b.cpuUs)
    if (list.length === 0) continue
    const scale = (WIDTH - LABEL - 150) / Math.max(...list.map(row => row.cpuUs))
    parts.push(text(16, y, title, 'font-weight="600" font-size="15"'))
    y += 12
    for (const row of list) {
      const [dark, light] = colourOf(row)
      const total = row.cpuUs * scale
      const main = Math.min(total, row.mainUs * scale)
      parts.push(
        text(
          LABEL - 10,
          y + 14,
          row.label,
          `text-anchor="end"${row.id.startsWith('holdfast') ? ' font-weight="600"' : ''}`
        ),
        `<rect x="${LABEL}" y="${y}" width="${total.toFixed(1)}" height="${BAR}" fill="${light}"/>`,
        `<rect x="${LABEL}" y="${y}" width="${main.toFixed(1)}" height="${BAR}" fill="${dark}"/>`,
        text(
          (LABEL + total + 8).toFixed(1),
          y + 14,
          `${row.cpuUs.toFixed(0)} µs (main thread ${row.mainUs.toFixed(0)})`,
          'fill="#444"'
        )
      )
      y += BAR + GAP
    }
    y += 30
  }
  const foot =
    `CPU a request, process total; dark: the main thread. Node ${node}, OpenSSL ${openssl}, one core. Shorter is ` +
    'better.'
  parts.push(text(16, y - 8, foot, 'fill="#555" font-size="12"'))
  const height = y + 8
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" font-family="system-ui, sans-serif" font-size="13" fill="#1b1f24" role="img" aria-label="CPU a request of Holdfast and of others">
<rect width="100%" height="100%" rx="8" fill="#fff"/>
${parts.join('\n')}
</svg>
`
}
