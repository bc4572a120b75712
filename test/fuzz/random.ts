/** Choices that depend on nothing but a seed and a number, so that each case can be made again by itself. */
export interface Random {
  /** At least 0, less than `below`. */
  below (below: number): number
  /** True once in so many times. */
  oneIn (times: number): boolean
  among<T>(choices: readonly T[]): T
  text (chars: string, length: number): string
}

/** mulberry32, which is small and good enough to choose inputs. */
export function createRandom (seed: number, number = 0): Random {
  let state = (Math.imul(seed, 0x9E3779B1) ^ Math.imul(number + 1, 0x85EBCA77)) >>> 0
  const next = () => {
    state = (state + 0x6D2B79F5) >>> 0
    let word = Math.imul(state ^ (state >>> 15), state | 1)
    word ^= word + Math.imul(word ^ (word >>> 7), word | 61)
    return (word ^ (word >>> 14)) >>> 0
  }
  // Neighbouring numbers start close to each other.
  next()
  const below = (most: number) => next() % most
  return {
    below,
    oneIn: times => below(times) === 0,
    among: choices => choices[below(choices.length)]!,
    text: (chars, length) => Array.from({ length }, () => chars[below(chars.length)]).join('')
  }
}
