import type { Givens } from './given.ts'
import { describeRefusals, partName, shownAt, type SchemaError } from './problems.ts'
import { isSetting, settingSpec, type RawSettings, type SettingValues } from './specs.ts'

/** What the schema has made of settings, and what is known beside them. */
interface Findings {
  /** With the types that their texts have, and with all defaults. What is refused is in it as it was. */
  readonly data: SettingValues
  readonly errors: readonly SchemaError[]
  /** Why secrets could not be read, by the paths of their parts. */
  readonly unread?: ReadonlyMap<string, string>
  /** A function of the application names the issuers. */
  readonly areIssuersAsked: boolean
  /** A function of the application says which peers are trusted. */
  readonly arePeersAsked: boolean
}

/** Settings that their schema has judged, with what takes down what is wrong with them. */
export type Judgement = ReturnType<typeof judgementOf>

/** Takes down what their schema says of settings, and then what is told. */
export function judgementOf ({ values: written, problems, places, isUnread }: Givens, findings: Findings) {
  const { data, errors, unread } = findings
  const values: RawSettings = { ...data, gate: written.gate, revocation: written.revocation }
  const refusals = describeRefusals(values, errors, unread)
  /** What is wrong so far. */
  const lines = [...problems]
  const tellSentence = (path: string, sentence: string) => {
    // A setting that any source can hold is named by its variable.
    const place = isSetting(path) && !settingSpec(path).properties ? undefined : places.get(path)
    lines.push(place === undefined ? sentence : `${place}: ${sentence}`)
  }
  for (const [path, sentence] of refusals) tellSentence(path, sentence)
  return {
    ...findings,
    /** As in `data`. Only the sections `gate` and `revocation` are as they were written. */
    values,
    places,
    isUnread,
    lines,
    /** Whether the schema has refused a part, such as `gate.rules[1]`, or a member of it. */
    isRefused: (part: string) => [...refusals.keys()].some(path => `${path}.`.startsWith(`${part}.`)),
    /** Adds a sentence that begins with the place and the name of a part. Then the settings must not be used. */
    tell (path: string, problem: string) {
      tellSentence(path, partName(path) + problem)
    },
    /** The same, with what the part holds after its name. */
    tellHeld (path: string, problem: string) {
      tellSentence(path, shownAt(values, path) + problem)
    }
  }
}
