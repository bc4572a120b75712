import neostandard, { resolveIgnoresFromGitignore } from 'neostandard'

/** Who may import whom: each folder names what it must not reach. The message says what to do instead. */
const folders = ['lib', 'plugins', 'routes', 'explain', 'cli', 'dev', 'bench', 'test']
const doors = ['app.ts', 'holdfast.ts', 'start-options.ts']
const boundary = (folder, allowed, restrictedPackages = []) => ({
  files: [folder === '.' ? '*.ts' : `${folder}/**/*.ts`],
  rules: {
    'no-restricted-imports': ['error', {
      patterns: [
        {
          group: folders.filter(other => !allowed.includes(other) && other !== folder).flatMap(other => [`**/${other}/**`]).concat(folder === '.' ? [] : doors.filter(door => !allowed.includes(door)).map(door => `**/${door}`)),
          message: `${folder === '.' ? 'The service' : `${folder}/`} may import from ${allowed.join(', ') || 'only itself'}; reach a plugin through its decorator.`
        },
        ...restrictedPackages
      ]
    }]
  }
})

const noFastifyAtRunTime = {
  group: ['fastify', 'fastify-plugin', '@fastify/*', '!@fastify/proxy-addr', '!@fastify/jwt'],
  allowTypeImports: true,
  message: 'This is plain TypeScript: Fastify belongs to plugins/ and routes/.'
}

export default [
  ...neostandard({ ts: true, ignores: [...resolveIgnoresFromGitignore(), 'bench/results/**'] }),
  boundary('.', ['lib', 'plugins', 'routes']),
  boundary('lib', [], [noFastifyAtRunTime]),
  boundary('explain', ['lib'], [noFastifyAtRunTime]),
  // They read settings as the service does.
  boundary('cli', ['lib', 'explain', 'holdfast.ts']),
  boundary('dev', ['lib', 'explain', 'cli', 'holdfast.ts']),
  boundary('plugins', ['lib']),
  boundary('routes', ['lib']),
  {
    files: ['lib/**/*.ts', 'explain/**/*.ts'],
    rules: {
      'no-restricted-globals': ['error', { name: 'process', message: 'This is told what it needs: it reads no environment.' }],
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
