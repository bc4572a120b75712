import neostandard, { resolveIgnoresFromGitignore } from 'neostandard'

/** Who may import whom: each folder names what it must not reach. The message says what to do instead. */
const folders = ['app', 'lib', 'plugins', 'routes', 'dev', 'bench', 'test']
const boundary = (folder, allowed, restrictedPackages = []) => ({
  files: [`${folder}/**/*.ts`],
  rules: {
    'no-restricted-imports': ['error', {
      patterns: [
        {
          group: folders.filter(other => !allowed.includes(other) && other !== folder).flatMap(other => [`**/${other}/**`]).concat('**/app.ts', '**/holdfast.ts', '**/start-options.ts'),
          message: `${folder}/ may import from ${allowed.join(', ') || 'itself alone'}; reach a plugin through its decorator.`
        },
        ...restrictedPackages
      ]
    }]
  }
})

const noFastifyAtRunTime = {
  group: ['fastify', 'fastify-plugin', '@fastify/*', '!@fastify/proxy-addr', '!@fastify/jwt'],
  allowTypeImports: true,
  message: 'lib/ is plain TypeScript: Fastify belongs to plugins/ and routes/.'
}

/** It tells what tokens and proofs hold, so it is for the tools of dev/ alone. tsconfig.build.json leaves it out of dist/. */
const noExplanation = {
  group: ['**/lib/explain.ts', '**/lib/explain/**'],
  message: 'The service explains no request to anyone: lib/explain is for dev/.'
}

export default [
  ...neostandard({ ts: true, ignores: [...resolveIgnoresFromGitignore(), 'bench/results/**'] }),
  boundary('lib', [], [noFastifyAtRunTime]),
  boundary('plugins', ['lib'], [noExplanation]),
  boundary('routes', ['lib'], [noExplanation]),
  { files: ['*.ts'], rules: { 'no-restricted-imports': ['error', { patterns: [noExplanation] }] } },
  {
    files: ['lib/**/*.ts'],
    rules: {
      'no-restricted-globals': ['error', { name: 'process', message: 'lib/ is told what it needs: it reads no environment.' }],
      'no-console': 'error'
    }
  },
  {
    files: ['plugins/*.ts'],
    rules: {
      'no-restricted-syntax': ['error', {
        selector: 'ImportDeclaration[source.value=/^\\.\\//]',
        message: 'A plugin reaches another through its decorator.'
      }]
    }
  }
]
