import regexp from 'eslint-plugin-regexp'
import { ARROWS, house } from './test/lint/house.js'
import { style } from './test/lint/style.js'

export default [
  { ignores: ['**/dist/**', '.tap/**', '.dev/**', 'packages/*/cli/**', 'bench/results/**'] },
  ...style,
  ...[false, true].map(ignoreStrings => ({
    // The name of a test is one line.
    ...ignoreStrings && { files: ['test', 'lab', 'bench', 'examples'].map(folder => `${folder}/**/*.{ts,js,mjs}`) },
    ignores: ['**/*.d.ts'],
    rules: {
      '@stylistic/max-len': ['error', {
        code: 120,
        ignoreStrings,
        ignoreTemplateLiterals: true,
        ignoreRegExpLiterals: true,
        ignoreUrls: true
      }]
    }
  })),
  {
    files: Object.keys(ARROWS).map(folder => folder === '.' ? '*.ts' : `${folder}/**/*.ts`),
    plugins: { house },
    rules: { 'house/arrows': 'error' }
  },
  {
    files: ['lib/**/*.ts', 'cli/explain/**/*.ts'],
    plugins: { house },
    rules: { 'house/passed-in': 'error', 'no-console': 'error' }
  },
  {
    files: ['test/**/*.ts'],
    ignores: ['test/own/**'],
    plugins: { house },
    rules: { 'house/exact': 'error' }
  },
  {
    // A client may choose the text that a pattern reads, so the time for it must grow as its length does.
    files: ['lib', 'plugins', 'routes', 'server', 'cli'].map(folder => `${folder}/**/*.ts`),
    plugins: { regexp },
    rules: {
      'regexp/no-super-linear-backtracking': ['error', { report: 'potential' }],
      'regexp/no-super-linear-move': ['error', { report: 'potential' }]
    }
  }
]
