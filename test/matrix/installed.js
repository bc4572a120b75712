/**
 * Loaded first, it has tests of the package use what is installed in the folder of MATRIX_FOLDER: the Fastify there,
 * and the packed holdfast in place of its sources.
 */
import { createRequire, register } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { isMainThread } from 'node:worker_threads'

const there = join(process.env['MATRIX_FOLDER'], 'index.js')
const fastify = pathToFileURL(createRequire(there).resolve('fastify')).href
const parentURL = pathToFileURL(there).href

if (isMainThread) register(import.meta.url)

/** The hook that Node asks for each import. */
export async function resolve (specifier, context, nextResolve) {
  if (specifier === 'fastify') return { url: fastify, format: 'commonjs', shortCircuit: true }
  const [, entry] = /\/packages\/holdfast\/(index|service|testing)\.ts$/.exec(specifier) ?? []
  if (entry === undefined) return nextResolve(specifier, context)
  return nextResolve(entry === 'index' ? 'holdfast' : `holdfast/${entry}`, { ...context, parentURL })
}
