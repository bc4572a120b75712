import { readFileSync, readdirSync } from 'node:fs'
import { basename, join } from 'node:path'

const readJson = path => JSON.parse(readFileSync(path, 'utf8'))
const { replaced } = readJson('test/own/routes.json')
const samples = readJson('test/helpers/samples.json').filter(name => !replaced.includes(name))
const isOwnRoute = file => file.startsWith(join('routes', 'api')) && !samples.includes(basename(file, '.ts'))

/**
 * What is counted: the service itself, and its checks as they are explained. dev/ and bench/ are tools, and test/
 * tests. How far own routes are tested is decided by those who write them.
 */
const sources = ['lib', 'plugins', 'routes', 'schemas', 'server', 'cli/explain'].flatMap(folder =>
  readdirSync(folder, { recursive: true }).filter(file => file.endsWith('.ts')).map(file => join(folder, file))
)
const counted = [...sources.filter(file => !isOwnRoute(file)), 'holdfast.ts']

/**
 * Tests of files, tools and whole processes: what they run of the sources, the others run as well. Counting makes them
 * and the processes they start a third slower.
 */
const uncounted =
  /^test\/(?:batches\/(?:files|tools)|lint\/|programs\/|bench\/|cli\/(?!explain\/)|deploy\/|dev\/|docs\/|examples\/|fuzz\/|history\/|packages\/manifests|start\.|node-versions\.|supply-chain\.)/

export default file => uncounted.test(file) ? null : counted
