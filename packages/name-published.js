/**
 * Changes the pages from the tarballs of a clone to the names on npm. Nobody has these names before the first release,
 * and whoever took them would run their code on our users' machines, so only the release runs this:
 * .github/workflows/release.yml.
 */
import { readFileSync, writeFileSync } from 'node:fs'

/** The pages that say how to install or run the packages. */
export const PAGES = [
  'README.md',
  'docs/guide/plugin.md',
  'docs/guide/gate.md',
  'docs/guide/your-own.md',
  'packages/holdfast-cli/README.md'
]

/** The page as it stands once the packages are on npm. */
export function namePublished (text) {
  return text
    .replaceAll(/^npm ci +# in a clone.*\nnpm run package\n/gm, '')
    .replaceAll(/npm i (?:\.\.?\/)*(?:holdfast\/)?holdfast-\d+\.\d+\.\d+\.tgz/g, 'npm i holdfast')
    .replaceAll(/(fastify) +# in your app.*$/gm, '$1')
    .replaceAll(/npx -y -p \.\/holdfast-cli-\d+\.\d+\.\d+\.tgz holdfast/g, 'npx -y holdfast-cli')
    .replaceAll(
      /npx -y -p \.\/create-holdfast-\d+\.\d+\.\d+\.tgz create-holdfast (?:\.\.\/)?(\S+) --packed \./g,
      'npm create holdfast@latest $1'
    )
    .replaceAll(/^cd \.\.\/my-api$/gm, 'cd my-api')
    .replaceAll('`npm run package`, then ', '')
}

if (process.argv[1]?.endsWith('name-published.js')) {
  for (const page of PAGES) writeFileSync(page, namePublished(readFileSync(page, 'utf8')))
}
