import { parseEnv } from 'node:util'

// One line, or several if quotes span them. Values are read as Node does where it does so in all its releases.
const ENTRY =
  /\uFEFF*[ \t]*(?:(?:export[ \t]+)?([A-Za-z_]\w*)[ \t]*=[ \t]*(?:(?:"([^"]*)"|'([^']*)'|`([^`]*)`)[ \t]*|([^ \t\n#"'`][^\n#]*))?)?(?:#[^\n]*)?(?:\n|$)/y

/**
 * Reads lines `NAME=value`, with `export`, blanks around `=` or quotes, comments and blank lines. Byte order marks are
 * dropped. Any other line is a problem, which names its number alone, because it may hold a secret.
 * @returns the last value of each name, and a sentence for each line that says nothing
 */
export function parseDotenv (written: string) {
  const text = written.replace(/\r\n?/g, '\n')
  const variables: Record<string, string> = {}
  const problems: string[] = []
  for (let at = 0; at < text.length;) {
    ENTRY.lastIndex = at
    const entry = ENTRY.exec(text)
    if (entry) {
      const [, name, escaped, single, ticked, plain = ''] = entry
      if (name !== undefined) variables[name] = escaped?.replaceAll('\\n', '\n') ?? single ?? ticked ?? plain.trimEnd()
    } else {
      problems.push(`.env, line ${text.slice(0, at).split('\n').length}: expected NAME=value, a comment or a blank ` +
        'line')
    }
    const end = entry ? ENTRY.lastIndex : text.indexOf('\n', at) + 1
    at = end > at ? end : text.length
  }
  return { variables, problems }
}

/**
 * Puts into the environment what is in `.env` and not in the environment, and takes out what Node has misread there:
 * fastify-cli has it read the file before any code of ours runs.
 */
export function applyDotenv (environment: Record<string, string | undefined>, text: string): void {
  for (const [name, value] of Object.entries(parseEnv(text))) if (environment[name] === value) delete environment[name]
  for (const [name, value] of Object.entries(parseDotenv(text).variables)) environment[name] ||= value
}
