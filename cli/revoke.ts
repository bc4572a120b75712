import { decodeJwt } from 'jose'
import { SETTINGS } from '../lib/settings/specs.ts'
import { flag, hasTenants, runTool, text, type Arguments, type Tool } from './arguments.ts'
import { BadUsage } from './bad-usage.ts'
import { call } from './call.ts'
import type { CallWorld } from './call-options.ts'
import { isAt, tenantAt } from './tenants.ts'

const options = {
  sub: { ...text, value: 'SUB', says: 'the user' },
  sid: { ...text, value: 'SID', says: 'the session, which is ended' },
  jti: { ...text, value: 'JTI', says: 'the token' },
  jkt: { ...text, value: 'JKT', says: 'the key: RFC 7638 thumbprint' },
  client: { ...text, value: 'ID', says: 'the client' },
  email: { ...text, value: 'ADDRESS', says: 'the user, by the claim email' },
  issuer: { ...text, value: 'URL', says: 'the issuer of the user, token or client; alone: all of its tokens' },
  undo: { ...flag, says: 'take the revocation back' },
  scope: { ...text, value: 'SCOPE', says: 'the permission of operators, to ask for' },
  url: { ...text, value: 'URL', says: 'where the API is', env: 'CALL_URL' }
} as const

const TOOL = {
  name: 'revoke',
  options,
  help: run =>
    `Revokes what is named: every token is refused that was issued up to now, or within the clock tolerance of the service
after that. A session and a token (--sid, --jti) end for good.

  ${run} --sub user-1 --issuer https://tenant.example/
  ${run} --sid 8c1f5a --undo`,
  ending: tenants =>
    `The operator's token comes from CALL_TOKEN${tenants ? ', else from the local tenant of `npm run dev`' : ''}.
Exit code: 0 if the service has stored it, else 1.`
} as const satisfies Tool

const SUBJECTS = ['sub', 'sid', 'jti', 'jkt', 'client', 'email'] as const

/** Sends a revocation to `POST /revocation/subjects`. Returns the exit code. */
export function revoke (argv: readonly string[], world: CallWorld): Promise<number> {
  return runTool(TOOL, argv, world, async ({ values, positionals }) => {
    if (positionals.length > 0) {
      throw new BadUsage(`"${positionals[0]!}" is no option; say what to revoke, such as --sub user-1`)
    }
    const body = { sub_id: subjectOf(values, world), ...values.undo === true && { undo: true } }
    requireOperator(values.url, world)
    const passed = (['scope', 'url'] as const).flatMap(name =>
      values[name] === undefined ? [] : [`--${name}`, values[name]]
    )
    let story = ''
    const code = await call(['POST', '/revocation/subjects', '--json', JSON.stringify(body), ...passed], {
      ...world,
      out: {
        write: part => {
          story += part
        },
        isTTY: world.out.isTTY === true
      }
    })
    if (code === 0 && UNMATCHED.test(story)) {
      const { iss } = body.sub_id
      world.out.write(`Nothing is revoked: the service has no ${
        iss === undefined ? 'token with this name' : `such issuer as ${iss}. Spell it as its settings do`
      }.\n`)
      return 1
    }
    const isUndone = values.undo === true
    world.out.write(code === 0 ? `${sentenceAbout(body.sub_id, isUndone, toleranceOf(values.url, world))}\n` : story)
    return code
  })
}

/** The header of an answer that says that no token of the service can match. It may be in color. */
const UNMATCHED = /^ *(?:\p{Cc}\[\d+m)?holdfast-revocation(?:\p{Cc}\[\d+m)?: unmatched/mu

/** What the service has stored, in words. */
function sentenceAbout (
  { format, iss, ...named }: Readonly<Record<string, string | undefined>>,
  isUndone: boolean,
  tolerance: string
): string {
  const [kind, value] = [KINDS[format!]!, Object.values(named)[0]]
  const of = [kind, value, iss === undefined || value === undefined ? iss : `of ${iss}`].filter(Boolean).join(' ')
  if (isUndone) return `Undone: what was revoked of ${of} counts no longer.`
  const tokens = `Revoked: the service refuses every token of ${of}`
  return ENDING.has(format!)
    ? `${tokens} from now on.`
    : `${tokens} that was issued up to now, or in the next ${tolerance}. Log in again after that.`
}

/** A session and a token have no life after their end. */
const ENDING: ReadonlySet<string> = new Set(['opaque', 'jwt_id'])

/**
 * What the service adds to the moment of a revocation, since an operator is not the issuer of the tokens. Only the
 * settings of a local tenant are known here.
 */
function toleranceOf (url: string | undefined, world: CallWorld): string {
  const at = url ?? (world.env['CALL_URL'] || undefined)
  const tenant = hasTenants(world) ? tenantAt(world.tenants ?? [], at) : undefined
  return tenant !== undefined && (at === undefined || isAt(tenant, at))
    ? `${tenant.settings['IDP_CLOCK_TOLERANCE_SECONDS'] ?? USUAL_TOLERANCE} s`
    : `seconds (IDP_CLOCK_TOLERANCE_SECONDS of the service, ${USUAL_TOLERANCE} by default)`
}

const USUAL_TOLERANCE = SETTINGS['idp.clockToleranceSeconds'].default

const KINDS: Readonly<Record<string, string>> = {
  iss_sub: 'the user',
  jwt_id: 'the number (jti)',
  client: 'the client',
  opaque: 'the session',
  jkt: 'the key',
  issuer: 'the issuer'
}

/** @throws BadUsage without an operator, or without the address of a service */
function requireOperator (url: string | undefined, world: CallWorld): void {
  const { CALL_TOKEN: token, CALL_ISSUER: issuer, CALL_URL: api } = world.env
  const tenant = hasTenants(world) ? world.tenants?.[0] : undefined
  if (tenant) return
  if (!token && !issuer) {
    throw new BadUsage(
      'whose permission is it? Set CALL_TOKEN to the access token of an operator, with the scope of ' +
        'revocation.operators'
    )
  }
  if (!url && !api) throw new BadUsage('say with --url where the API is')
}

/** @throws BadUsage */
function subjectOf (values: Arguments<typeof options>['values'], world: CallWorld): Record<string, string | undefined> {
  const named = SUBJECTS.filter(name => values[name] !== undefined)
  if (named.length > 1) {
    throw new BadUsage(`--${named.join(' and --')} cannot be combined: one of them is revoked at a time`)
  }
  const [name] = named
  switch (name) {
    case 'sub':
      return { format: 'iss_sub', iss: issuerOf(values.issuer, world), sub: values.sub }
    case 'jti':
      return { format: 'jwt_id', iss: issuerOf(values.issuer, world), jti: values.jti }
    case 'client':
      return { format: 'client', iss: issuerOf(values.issuer, world), client_id: values.client }
    case 'sid':
      return { format: 'opaque', id: values.sid }
    case 'email':
      return { format: 'email', email: values.email }
    case 'jkt':
      return { format: 'jkt', jkt: values.jkt }
    default: {
      if (values.issuer === undefined) {
        throw new BadUsage(`say what to revoke: ${SUBJECTS.map(subject => `--${subject}`).join(', ')} or --issuer`)
      }
      return { format: 'issuer', iss: values.issuer }
    }
  }
}

/** The issuer that is named, else that of the operator's own token, else the local tenant. @throws BadUsage */
function issuerOf (given: string | undefined, world: CallWorld): string {
  const own = given ?? issuerIn(world.env['CALL_TOKEN']) ??
    (hasTenants(world) ? tenantAt(world.tenants ?? [], world.env['CALL_URL'])?.issuer : undefined)
  if (own === undefined) throw new BadUsage('say with --issuer who has issued it')
  return own
}

function issuerIn (token: string | undefined): string | undefined {
  try {
    return token === undefined ? undefined : decodeJwt(token).iss
  } catch {
    return undefined
  }
}
