import { measureRows } from './compare.js'
import { keep } from './holdfast.js'
import { HAS_ML_DSA, OTHER_ALGS } from './provider.js'

const ISSUERS = 50
const BAD = ['no credentials', 'token signature wrong']

/** What each sort of token costs beside one by RS256. All are sent again and again, but for the opaque ones that are new each time, and for proofs. */
const rowsFor = ({ provider: { issuer, keySet }, audience }) => {
  const keysFile = keep('keys.json', JSON.stringify(keySet))
  const algs = OTHER_ALGS.flatMap(({ algs }) => algs)
  const everyAlg = { IDP_ALGS: ['RS256', ...algs].join(' '), IDP_KEYS_FILE: keysFile }
  const introspected = { IDP_INTROSPECTION: 'opaque', IDP_INTROSPECTION_ENDPOINT: `${issuer}introspect`, IDP_CLIENT_ID: 'bench', IDP_CLIENT_SECRET: 'secret' }
  const others = Array.from({ length: ISSUERS - 1 }, (_, i) => ({ issuer: `https://tenant-${i}.example/`, keysFile }))
  return [
    { id: 'issued-RS256', label: 'RS256', kind: 'bearer', bad: BAD, quick: true },
    ...algs.map(alg => ({ id: `issued-${alg}`, label: alg, kind: `bearer-${alg}`, env: everyAlg, bad: BAD, quick: ['ES256', 'PS256', 'ML-DSA-44'].includes(alg) })),
    { id: 'issued-proof-ES256', label: 'RS256, with a proof by ES256', kind: 'dpop', bad: ['no credentials', 'proof signature wrong'], quick: true },
    ...HAS_ML_DSA ? [{ id: 'issued-proof-ML-DSA-44', label: 'RS256, with a proof by ML-DSA-44', kind: 'dpop-ML-DSA-44', env: { DPOP_ALGS: 'ES256 ML-DSA-44' }, bad: ['no credentials', 'proof signature wrong'], quick: true }] : [],
    { id: 'issued-issuers', label: `RS256, the last of ${ISSUERS} issuers`, kind: 'bearer', env: { IDP_ISSUER: '' }, config: { idp: { audience, issuers: [...others, { issuer }] } }, bad: BAD, quick: true },
    { id: 'issued-certificate', label: 'RS256, bound to a certificate', kind: 'certificate', env: { CLIENT_CERTIFICATE: 'client-cert', TRUST_PROXY: 'loopback' }, bad: ['certificate missing'], quick: true },
    { id: 'issued-opaque', label: 'opaque, answer kept', kind: 'opaque', env: { ...introspected, IDP_INTROSPECTION_CACHE_SECONDS: '300' }, bad: ['no credentials'], quick: true },
    { id: 'issued-opaque-new', label: 'opaque, asked each time', kind: 'opaque-new', env: introspected, bad: ['no credentials'], quick: true }
  ]
}

export const issued = async (bench) => (await measureRows(bench, rowsFor(bench))).map(({ figures }) => figures)
