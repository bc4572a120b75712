/**
 * Turns access rules of Ory Oathkeeper into a config.yaml of the gate, or says of each rule why it cannot:
 * `node oathkeeper.js rules.yaml > config.yaml`. Nothing is left out in silence: what the gate cannot say is refused.
 * Settings that Oathkeeper has in its own file, such as `trusted_issuers`, must stand in the rules.
 */
import { readFileSync } from 'node:fs'
import { parse, stringify } from 'yaml'

const MEMBERS = 'id version description match upstream authenticators authorizer mutators'
const JWT_OPTIONS = 'jwks_urls jwks_max_wait jwks_ttl trusted_issuers target_audience required_scope scope_strategy ' +
  'allowed_algorithms'

class Unsayable extends Error {}
const refuse = why => {
  throw new Unsayable(why)
}
const onlyKnown = (part, names, where) => {
  const unknown = Object.keys(part ?? {}).find(name => !names.split(' ').includes(name))
  if (unknown !== undefined) refuse(`${where}${unknown} has no counterpart`)
}
/** The only entry of a list. */
const only = (list, what) =>
  Array.isArray(list) && list.length === 1 ? list[0] : refuse(`${what} must be one, and is ${JSON.stringify(list)}`)

/** `http://my-app/orders/<[^/]+>` as origin and path of the gate. */
function readMatch (url) {
  const [, origin, path] = /^(https?:\/\/[^/<>]+)(\/.*)$/.exec(url) ?? refuse(`${url} needs an origin in full`)
  const segments = path.slice(1).split(/\/(?![^<]*>)/)
  const words = segments.map((segment, at) => {
    if (segment === '<.*>' && at === segments.length - 1) return '*'
    if (segment === '<[^/]+>') return `:part${at + 1}`
    return /^[\w.~-]*$/.test(segment) ? segment : refuse(`${url}: only <[^/]+>, and <.*> at the end, can be said`)
  })
  return { origin, path: `/${words.join('/')}` }
}

/** HEAD comes with GET here, so it cannot have a rule of its own. */
function readMethods (methods) {
  if (!Array.isArray(methods) || methods.length === 0) refuse('match.methods is missing')
  if (methods.includes('HEAD') && !methods.includes('GET')) refuse('match.methods: HEAD goes with GET')
  return methods.filter(method => method !== 'HEAD')
}

/** What the authenticators ask of the token; undefined if anyone passes. */
function readAuthenticators (authenticators) {
  const [first, second, ...rest] = authenticators ?? refuse('authenticators is missing')
  onlyKnown(first?.config, first?.handler === 'jwt' ? JWT_OPTIONS : '', `authenticator ${first?.handler}: `)
  if (['noop', 'anonymous'].includes(first?.handler) && second === undefined) return undefined
  if (first?.handler !== 'jwt') refuse(`authenticator ${first?.handler}: only jwt, noop and anonymous can be said`)
  const isOptional = second?.handler === 'anonymous' && !second.config && rest.length === 0
  if (second !== undefined && !isOptional) refuse('authenticators: after jwt only anonymous can be said')
  const config = first.config ?? {}
  const scope = [config.required_scope ?? []].flat()
  if (scope.length > 0 && config.scope_strategy !== 'exact') {
    refuse(`scope_strategy ${config.scope_strategy ?? 'none'}: only exact can be said`)
  }
  return {
    idp: {
      issuer: only(config.trusted_issuers, 'trusted_issuers'),
      jwksUri: only(config.jwks_urls, 'jwks_urls'),
      algs: config.allowed_algorithms ?? ['RS256']
    },
    audience: only(config.target_audience, 'target_audience'),
    needs: { ...scope.length > 0 && { scope }, ...isOptional && { optional: true } }
  }
}

function readRule (rule) {
  onlyKnown(rule, MEMBERS, '')
  onlyKnown(rule.match, 'url methods', 'match.')
  onlyKnown(rule.upstream, 'url preserve_host', 'upstream.')
  if (rule.authorizer?.handler !== 'allow') {
    refuse(`authorizer ${rule.authorizer?.handler}: only allow can be said. What no rule names is refused`)
  }
  for (const { handler } of rule.mutators ?? []) {
    if (handler !== 'noop') refuse(`mutator ${handler}: the service gets X-Auth-Subject and others instead`)
  }
  const { origin, path } = readMatch(rule.match?.url)
  const host = rule.upstream?.preserve_host ? 'client' : 'upstream'
  const gateRule = { path, methods: readMethods(rule.match?.methods) }
  const token = readAuthenticators(rule.authenticators)
  return { shared: { origin, upstream: rule.upstream?.url, host }, token, gateRule }
}

/** @returns `{ config }`, or `{ problems }`, one sentence each */
export function convert (rules) {
  const problems = []
  const tried = (name, work) => {
    try {
      return work()
    } catch (error) {
      if (!(error instanceof Unsayable)) throw error
      problems.push(`${name}: ${error.message}`)
    }
  }
  const read = rules.map((rule, at) => tried(rule.id ?? `rule ${at + 1}`, () => readRule(rule))).filter(Boolean)
  const tokens = read.flatMap(({ token }) => token ?? [])
  const [shared, idp] = [read.map(rule => rule.shared), tokens.map(token => token.idp)].map(parts => {
    const forms = [...new Set(parts.map(part => JSON.stringify(part)))]
    if (forms.length > 1) problems.push(`all rules: one gate has one of these: ${forms.join(' ')}`)
    return parts[0]
  })
  if (idp === undefined) problems.push('all rules: none of them asks for a token')
  if (shared && !/^https?:\/\/[^/]+\/?$/.test(shared.upstream)) problems.push('all rules: upstream.url is no origin')
  if (problems.length > 0) return { problems }
  const [{ audience }] = tokens
  const gateRules = read.map(({ token, gateRule }) => ({
    ...gateRule,
    ...token ? { ...token.needs, ...token.audience !== audience && { audience: token.audience } } : { allow: 'anyone' }
  }))
  const { origin: publicUrl, ...upstream } = shared
  return { config: { idp: { ...idp, audience }, server: { publicUrl }, gate: { ...upstream, rules: gateRules } } }
}

if (process.argv[1]?.endsWith('oathkeeper.js')) {
  const { config, problems } = convert(parse(readFileSync(process.argv[2], 'utf8'), { merge: true }))
  if (config) process.stdout.write(stringify(config))
  else console.error(problems.join('\n'))
  process.exitCode = config ? 0 : 1
}
