/**
 * What runs at this moment: the settings from the server of this page, whether the API answers, and the ids of the keys
 * that the provider publishes. What does not answer is undefined or false.
 */
export async function look () {
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
