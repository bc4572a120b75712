import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../../cli/tenants.ts'

const PAGES = 'https://raw.githubusercontent.com/holdfast/holdfast/main/docs/'

/** docs/llms.txt: the table of docs/README.md for programs that read (https://llmstxt.org). */
export function makeLlms (): string {
  const [, ...parts] = readFileSync(join(root, 'docs/README.md'), 'utf8').split(/^\[[a-z/]+\/\]/m)
  const links = (part: string) =>
    [...part.matchAll(/^\| \[(.+?)\]\((.+?)\) \| (.+) \|$/gm)].map(([, name, path, about]) =>
      `- [${name}](${new URL(path!, PAGES).href}): ${about}`
    ).join('\n')
  return '# Holdfast\n\n> Guards HTTP APIs with OAuth access tokens, Bearer and DPoP (RFC 9449): as a Fastify ' +
    'plugin, as a guard in any Node framework, and as a gate before services in any language.\n\n' +
    ['Guide', 'Moving here', 'Reference'].map((title, at) => `## ${title}\n\n${links(parts[at]!)}\n`).join('\n')
}
