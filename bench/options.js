import { parseArgs } from 'node:util'

/**
 * Reads the options of a command. If there is one that it does not know, it says so in a sentence, and the process ends
 * with code 2.
 */
export function readOptions (options) {
  try {
    return parseArgs({ options }).values
  } catch ({ message }) {
    // Node adds sentences on how such a word could be meant otherwise.
    refuse(message.split('. ', 1)[0])
  }
}

/** Ends the process with code 2 if a value is none of the known ones. */
export function expectKnown (option, values, known) {
  const unknown = values.find(value => !known.includes(value))
  if (unknown !== undefined) refuse(`--${option} ${unknown} is unknown: it is one of ${known.join(', ')}`)
}

function refuse (sentence) {
  console.error(`${sentence.replace(/\.$/, '')}.`)
  process.exit(2)
}
