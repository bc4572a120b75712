import { readFileSync, readdirSync } from 'node:fs'
import { basename, join } from 'node:path'

const readJson = path => JSON.parse(readFileSync(path, 'utf8'))
const { replaced } = readJson('test/own/routes.json')
const samples = readJson('test/helpers/samples.json').filter(name => !replaced.includes(name))
const isOwnRoute = file => file.startsWith(join('routes', 'api')) && !samples.includes(basename(file, '.ts'))

/**
 * What every test file counts towards: the service itself, and its checks as they are told. dev/ and bench/ are tools, and test/
 * tests. How far own routes are tested is decided by those who write them.
 */
const sources = ['lib', 'plugins', 'routes', 'schemas', 'server', 'explain'].flatMap(folder =>
  readdirSync(folder, { recursive: true }).filter(file => file.endsWith('.ts')).map(file => join(folder, file)))

export default () => [...sources.filter(file => !isOwnRoute(file)), 'holdfast.ts']
