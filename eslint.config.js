import regexp from 'eslint-plugin-regexp'
import neostandard, { resolveIgnoresFromGitignore } from 'neostandard'

/** Who may import whom: each folder names what it must not reach. The message says what to do instead. */
const folders = ['lib', 'server', 'plugins', 'routes', 'schemas', 'explain', 'cli', 'packages', 'dev', 'examples', 'bench', 'test']
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
  group: ['fastify', 'fastify-plugin', '@fastify/*', '!@fastify/proxy-addr'],
  allowTypeImports: true,
  message: 'This is plain TypeScript: Fastify belongs to plugins/ and routes/.'
}

const PASSED_IN = 'This is told what it needs: clock, random numbers and environment are passed in.'

const DYNAMIC_IMPORT_UPWARDS = {
  selector: 'ImportExpression[source.value=/^\\.\\.\\/\\.\\.\\/|(server|plugins|routes|schemas|explain|cli|dev|bench|test)\\//]',
  message: 'lib/ may import from only itself, also at run time.'
}

export default [
  ...neostandard({ ts: true, ignores: [...resolveIgnoresFromGitignore(), 'bench/results/**'] }),
  boundary('.', ['lib', 'server', 'plugins', 'routes']),
  boundary('server', ['lib'], [noFastifyAtRunTime]),
  boundary('schemas', ['lib']),
  boundary('lib', [], [noFastifyAtRunTime]),
  boundary('explain', ['lib'], [noFastifyAtRunTime]),
  boundary('packages', ['lib', 'server', 'plugins', 'cli', 'holdfast.ts']),
  // They read settings as the service does.
  boundary('cli', ['lib', 'server', 'explain', 'holdfast.ts']),
  boundary('dev', ['lib', 'server', 'explain', 'cli', 'holdfast.ts', 'app.ts']),
  boundary('examples', ['lib', 'server', 'dev', 'holdfast.ts']),
  boundary('plugins', ['lib', 'server']),
  boundary('routes', ['lib', 'server', 'schemas']),
  {
    files: ['lib/**/*.ts', 'explain/**/*.ts'],
    rules: {
      'no-restricted-globals': ['error', ...['process', 'performance'].map(name => ({ name, message: PASSED_IN }))],
      'no-restricted-properties': ['error',
        { object: 'globalThis', property: 'process', message: PASSED_IN },
        { object: 'Date', property: 'now', message: PASSED_IN },
        { object: 'Math', property: 'random', message: PASSED_IN }
      ],
      'no-restricted-syntax': ['error',
        { selector: 'ImportDeclaration[source.value=/^(node:)?process$/]', message: PASSED_IN },
        { selector: 'ImportSpecifier[imported.name=/^(randomBytes|randomUUID|randomInt|getRandomValues)$/]', message: PASSED_IN },
        { selector: 'NewExpression[callee.name="Date"][arguments.length=0]', message: PASSED_IN },
        DYNAMIC_IMPORT_UPWARDS
      ],
      'no-console': 'error'
    }
  },
  {
    // What the guard asks. They take plain values: settings know them, and not the other way round.
    files: ['token', 'jose', 'dpop', 'replay', 'provider', 'url', 'gate'].map(topic => `lib/${topic}/**/*.ts`),
    rules: {
      'no-restricted-imports': ['error', {
        patterns: [
          noFastifyAtRunTime,
          { group: ['server', 'plugins', 'routes', 'schemas', 'explain', 'cli', 'dev', 'bench', 'test'].map(folder => `**/${folder}/**`), message: 'lib/ may import from only itself.' },
          { group: ['settings', 'metrics', 'openapi'].map(folder => `**/${folder}/**`), message: 'A topic takes plain values and knows no settings.' }
        ]
      }]
    }
  },
  {
    // A stranger may choose the text that a pattern reads, so the time for it must grow as its length does.
    files: ['lib', 'plugins', 'routes', 'server', 'explain', 'cli'].map(folder => `${folder}/**/*.ts`),
    plugins: { regexp },
    rules: {
      'regexp/no-super-linear-backtracking': ['error', { report: 'potential' }],
      'regexp/no-super-linear-move': ['error', { report: 'potential' }]
    }
  },
  {
    files: ['plugins/*.ts'],
    rules: {
      'no-restricted-syntax': ['error', {
        selector: 'ImportDeclaration[source.value=/^\\.\\/|^\\.\\.\\/plugins\\//]',
        message: 'A plugin reaches another through its decorator.'
      }]
    }
  }
]
