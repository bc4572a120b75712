import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './processes.js'

/** Puts a text between the markers `name` of a page. Returns false if the page has none. */
export const writeInto = (page, name, content) => {
  const [start, end] = [`<!-- ${name}:start -->`, `<!-- ${name}:end -->`]
  const path = join(ROOT, page)
  const text = existsSync(path) ? readFileSync(path, 'utf8') : ''
  const [from, to] = [text.indexOf(start), text.indexOf(end)]
  if (from === -1 || to < from) return false
  writeFileSync(path, `${text.slice(0, from)}${start}\n${content}\n${text.slice(to)}`)
  return true
}
