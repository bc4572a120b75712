/** A default, as a docstring says it. */
export const defaultOf = (given: unknown) =>
  `\`${typeof given === 'object' && !Array.isArray(given) ? JSON.stringify(given) : [given].flat().join(' ')}\``

/** It begins with a capital, unless its first word is a value: `false`, `fapi2`. */
export const sentence = (about: string) =>
  /^(?:true|false|fapi2)\b/.test(about) ? about : `${about[0]!.toUpperCase()}${about.slice(1)}`

const WIDTH = 120

/** A comment that is too long for a line takes several. */
export const wrapDocstrings = (source: string) =>
  source.replace(/^( *)\/\*\* (.*) \*\/$/gm, (line, indent: string, text: string) => {
    if (line.length <= WIDTH) return line
    const lines = ['']
    for (const word of text.split(' ')) {
      if (`${indent} *${lines.at(-1)} ${word}`.length > WIDTH) lines.push('')
      lines[lines.length - 1] += ` ${word}`
    }
    return `${indent}/**\n${lines.map(part => `${indent} *${part}\n`).join('')}${indent} */`
  })
