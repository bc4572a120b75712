import type { Node, Scalar } from 'yaml'

/** What the reader of a tree needs. */
export interface TreeContext {
  readonly yaml: typeof import('yaml')
  /** An offset of the text, in words. */
  readonly at: (offset: number) => string
  /** Filled with the place of each part, by its path. */
  readonly places: Map<string, string>
  /** Filled with keys that appear twice. */
  readonly problems: string[]
}

/**
 * Reads a section whose own module judges what is in it. A number without quotes becomes a number if no digit is lost. Other values stay
 * as they were written. A key without a value counts as unset.
 */
export function readTree (node: Node, path: string, context: TreeContext): unknown {
  const { yaml: { isMap, isScalar, isSeq }, at, places, problems } = context
  places.set(path, at(node.range![0]))
  if (isSeq(node)) return node.items.map((item, index) => readTree(item as Node, `${path}[${index}]`, context))
  if (isMap(node)) {
    const members = new Map<string, unknown>()
    for (const { key: keyNode, value } of node.items) {
      const key = String(isScalar(keyNode) ? keyNode.value : keyNode)
      const place = at((keyNode as Node).range![0])
      if (members.has(key)) problems.push(`${place}: the key ${JSON.stringify(`${path}.${key}`)} appears twice`)
      const member = value === null ? null : readTree(value as Node, `${path}.${key}`, context)
      places.set(`${path}.${key}`, place)
      if (member !== null) members.set(key, member)
    }
    return Object.fromEntries(members)
  }
  return scalarValue(node as Scalar)
}

function scalarValue ({ value, type }: Scalar): unknown {
  if (type !== 'PLAIN' || typeof value !== 'string') return value
  const number = Number(value)
  return Number.isFinite(number) && String(number) === value ? number : value
}
