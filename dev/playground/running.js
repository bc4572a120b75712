/* global location */
// What runs, and the settings with which it runs.
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

/**
 * What runs at this moment: the settings from the server of this page, whether the API answers, and the ids of the keys
 * that the provider publishes. What does not answer is undefined or false.
 */
async function look () {
  const config = await getJson('/config.json')
  if (config === undefined) return { config, isApiUp: false, keyIds: undefined }
  const [health, document] = await Promise.all([
    getJson(`${config.api}/health/live`),
    getJson(`${config.issuer}/.well-known/openid-configuration`)
  ])
  const keys = document && await getJson(document.jwks_uri)
  return { config, isApiUp: health !== undefined, keyIds: keys?.keys.map(({ kid }) => kid) }
}

async function getJson (url) {
  try {
    const response = await fetch(url, { cache: 'no-store', signal: AbortSignal.timeout(5000) })
    return response.ok ? await response.json() : undefined
  } catch {
    return undefined
  }
}
