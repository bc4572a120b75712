import { placesOf } from './given.ts'
import type { Givens } from './given.ts'
import { describeRefusals, partName, shownAt } from './problems.ts'
import type { SchemaError } from './problems.ts'
import type { RawSettings, SettingValues } from './specs.ts'

/** Settings that their schema has judged, with what else is known, and what takes down what is wrong with them. */
export interface Judgement {
  /** With the types that their texts have. The sections `gate` and `revocation` are as they were written. */
  readonly values: RawSettings
  /** The same with all defaults. What is refused is in it as it was. */
  readonly data: SettingValues
  /** Where the parts of lists and sections of a file stand, in words. */
  readonly places: ReadonlyMap<string, string>
  /** A source could not be read. A value that seems to be missing may be in it. */
  readonly isUnread: boolean
  /** A function of the application names the issuers. */
  readonly areIssuersAsked: boolean
  /** A function of the application says which peers are trusted. */
  readonly arePeersAsked: boolean
  /** What is wrong so far. */
  readonly lines: readonly string[]
  /** Whether the schema has refused a part, such as `gate.rules[1]`, or a member of it. */
  readonly isRefused: (path: string) => boolean
  /** Tells what the schema has refused of the sections that are meant. Returns whether there was anything. */
  readonly tellRefusals: (isMeant: (section: string) => boolean) => boolean
  /** Adds a sentence that begins with the place and the name of a part. Then the settings must not be used. */
  readonly tell: (path: string, problem: string) => void
  /** The same, with what the part holds after its name. */
  readonly tellHeld: (path: string, problem: string) => void
}

export interface Findings extends Pick<Judgement, 'values' | 'data' | 'areIssuersAsked' | 'arePeersAsked'> {
  readonly errors: readonly SchemaError[]
  /** Why secrets could not be read, by the paths of their parts. */
  readonly unread?: ReadonlyMap<string, string>
}

/** What their schema says of settings, and what takes down the rest. */
export function judgementOf (found: Givens, { errors, unread, ...judged }: Findings): Judgement {
  const { values } = judged
  const places = placesOf(found)
  const refusals = describeRefusals(values, errors, unread)
  const lines = [...found.problems]
  const tell = (path: string, sentence: string): void => {
    const place = places.get(path)
    lines.push(place === undefined ? sentence : `${place}: ${sentence}`)
  }
  return {
    ...judged,
    places,
    lines,
    isUnread: found.isUnread,
    isRefused: part => [...refusals.keys()].some(path => `${path}.`.startsWith(`${part}.`)),
    tell: (path, problem) => tell(path, partName(path) + problem),
    tellHeld: (path, problem) => tell(path, shownAt(values, path) + problem),
    tellRefusals (isMeant) {
      const meant = [...refusals].filter(([path]) => isMeant(/^\w*/.exec(path)![0]))
      for (const [path, sentence] of meant) tell(path, sentence)
      return meant.length > 0
    }
  }
}
