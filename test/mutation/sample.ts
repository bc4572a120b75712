import { hashOf } from './mutants.ts'

/**
 * So many of the items, chosen by the seed and their names: the same ones each time, also when others have come or
 * gone.
 */
export function sample<Item extends { readonly id: string }> (
  items: readonly Item[],
  seed: number,
  size: number
): Item[] {
  const ranked = items.map(item => ({ item, rank: hashOf(`${seed} ${item.id}`) }))
  return ranked.sort((a, b) => a.rank < b.rank ? -1 : 1).slice(0, size).map(({ item }) => item)
}
