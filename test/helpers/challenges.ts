export interface Challenge {
  scheme: string
  parameters: Record<string, string>
}

const TOKEN = /[!#$%&'*+\-.^_`|~0-9A-Za-z]+/y
const QUOTED = /"((?:[\t \x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e])*)"/y

/**
 * Reads a WWW-Authenticate value by the grammar of RFC 9110 section 11.6.1, independently of the code that writes it.
 * Throws on any deviation.
 */
export function parseChallenges (value: string): Challenge[] {
  let at = 0
  const take = (pattern: RegExp) => {
    pattern.lastIndex = at
    const match = pattern.exec(value)
    if (!match) return undefined
    at = pattern.lastIndex
    return match[1] ?? match[0]
  }
  const challenges: Array<{ scheme: string, parameters: Record<string, string> }> = []
  while (at < value.length) {
    if (challenges.length > 0 && take(/, */y) === undefined) throw new Error(`no comma at ${at} of ${value}`)
    const scheme = take(TOKEN)
    if (scheme === undefined) throw new Error(`no scheme at ${at} of ${value}`)
    const parameters: Record<string, string> = {}
    challenges.push({ scheme, parameters })
    if (take(/ +(?=[^ ,])/y) === undefined) continue
    do {
      const name = take(TOKEN)
      if (name === undefined || take(/=/y) === undefined) throw new Error(`no parameter at ${at} of ${value}`)
      const text = take(QUOTED) ?? take(TOKEN)
      if (text === undefined || name in parameters) throw new Error(`a bad value of ${name} in ${value}`)
      parameters[name] = text
    } while (take(/, *(?=[^ ,=]+=)/y) !== undefined)
  }
  return challenges
}
