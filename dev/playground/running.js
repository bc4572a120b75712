/* global location */
// What runs, and the settings with which it runs.
import { look } from './parties.js'
import { TERMINAL } from './verdict.js'

/** How long the page waits until it looks again for what did not answer. */
export const RETRY_MS = 3000

/** What runs, as `look` found it. */
export let parties
/** The last settings that there were. */
export let config

/** Looks what runs. Settings stay as they were last known. */
export async function lookAgain () {
  parties = await look()
  config = parties.config ?? config
}

/** What is wrong with what runs, in sentences; undefined if all is well. */
export function faultOfParties () {
  const { config: answered, isApiUp, keyIds } = parties
  const faults = []
  if (answered === undefined) faults.push(`The server of this page at ${location.origin} does not answer.`)
  else {
    if (!isApiUp) {
      faults.push(
        `The API at ${config.api} does not answer, or does not let this page read its answers (CORS_ORIGINS).`
      )
    }
    if (keyIds === undefined) faults.push(`The identity provider at ${config.issuer} does not answer.`)
  }
  return faults.length === 0
    ? undefined
    : `${faults.join(' ')} ${TERMINAL} This page tries again every ${RETRY_MS / 1000} seconds.`
}
