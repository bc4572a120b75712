import { decodeJwt } from 'jose'
import { flag, runTool, text, type Arguments, type Tool } from './arguments.ts'
import { BadUsage } from './bad-usage.ts'
import { makeCall, reportFailure } from './call.ts'
import { readCallOptions, type CallWorld } from './call-options.ts'

const TOOL = {
  name: 'revoke',
  options: {
    sub: { ...text, value: 'SUB', says: 'the user' },
    sid: { ...text, value: 'SID', says: 'the session, which is ended' },
    jti: { ...text, value: 'JTI', says: 'the token' },
    jkt: { ...text, value: 'JKT', says: 'the key: RFC 7638 thumbprint' },
    client: { ...text, value: 'ID', says: 'the client' },
    issuer: { ...text, value: 'URL', says: 'the issuer of the user, token or client; alone: all of its tokens' },
    undo: { ...flag, says: 'take the revocation back' },
    scope: { ...text, value: 'SCOPE', says: 'the permission of operators, to ask for' },
    dpop: { ...flag, says: 'a token bound to a fresh key, for a service that takes no other' },
    url: { ...text, value: 'URL', says: 'where the API is', env: 'CALL_URL' }
  },
  help: run =>
    `Revokes what is named: every token is refused that was issued up to now, or within the clock tolerance of the service
after that. A session and a token (--sid, --jti) end for good.

  ${run} --sub user-1 --issuer https://tenant.example/
  ${run} --sid 8c1f5a --undo`,
  ending: tenants =>
    `The operator's token is CALL_TOKEN, or comes from CALL_ISSUER, by CALL_CLIENT_ID and CALL_CLIENT_SECRET${
      tenants ? ', or from the local tenant of `npm run dev`' : ''
    }.
Exit code: 0 if the service has stored it, else 1.`
} as const satisfies Tool

/** What can be named, as a subject identifier: its format, its member, and whether an issuer belongs to it. */
const SUBJECTS = {
  sub: { format: 'iss_sub', member: 'sub', is: 'the user', hasIssuer: true },
  sid: { format: 'opaque', member: 'id', is: 'the session', hasIssuer: false },
  jti: { format: 'jwt_id', member: 'jti', is: 'the token', hasIssuer: true },
  jkt: { format: 'jkt', member: 'jkt', is: 'the key', hasIssuer: false },
  client: { format: 'client', member: 'client_id', is: 'the client', hasIssuer: true }
} as const

/** Sends a revocation to `POST /revocation/subjects`. Returns the exit code. */
export function revoke (argv: readonly string[], world: CallWorld): Promise<number> {
  return runTool(TOOL, argv, world, async ({ values }, paint) => {
    const { env, out } = world
    const { scope, dpop, url, undo } = values
    if (!env['CALL_TOKEN'] && !env['CALL_ISSUER'] && !world.tenants?.length) {
      throw new BadUsage('whose permission is it? Set CALL_TOKEN to the access token of an operator')
    }
    const call = readCallOptions(
      { values: { json: '{}', scope, dpop, url }, positionals: ['POST', '/revocation/subjects'] },
      env,
      world.tenants
    )
    const { subject, named } = subjectOf(values, issuerIn(env['CALL_TOKEN']) ?? call.issuer)
    const options = { ...call, payload: JSON.stringify({ sub_id: subject, undo }) }
    const { sent, answer } = await makeCall(options, env, paint)
    if (answer?.status !== 204) return reportFailure(sent, answer, options, world, paint)
    if (answer.headers.get('holdfast-revocation') === 'unmatched') {
      out.write(`Nothing is revoked: no token of the service can be of ${named}. Spell it as its settings do.\n`)
      return 1
    }
    out.write(
      undo
        ? `Undone: what was revoked of ${named} counts no longer.\n`
        : `Revoked: the service refuses every token of ${named}. A session or a token has ended; for all others log in ` +
          'again, once the clock tolerance of the service has passed.\n'
    )
    return 0
  })
}

/** The subject identifier (RFC 9493), and the same in words. @throws BadUsage */
function subjectOf (
  values: Arguments<typeof TOOL.options>['values'],
  issuerOfOperator: string
): { readonly subject: Readonly<Record<string, string>>, readonly named: string } {
  const names = (Object.keys(SUBJECTS) as Array<keyof typeof SUBJECTS>).filter(name => values[name] !== undefined)
  if (names.length > 1) {
    throw new BadUsage(`--${names.join(' and --')} cannot be combined: one of them is revoked at a time`)
  }
  const [name] = names
  if (name === undefined) {
    const { issuer } = values
    if (issuer !== undefined) return { subject: { format: 'issuer', iss: issuer }, named: `the issuer ${issuer}` }
    throw new BadUsage(`say what to revoke: --${Object.keys(SUBJECTS).join(', --')} or --issuer`)
  }
  const { format, member, is, hasIssuer } = SUBJECTS[name]
  const value = values[name]!
  // The service would look for it at each issuer that the operator acts for.
  if (!hasIssuer && values.issuer !== undefined) {
    throw new BadUsage(`--issuer does not go with --${name}: ${is} is named without it, and meant at each issuer`)
  }
  if (!hasIssuer) return { subject: { format, [member]: value }, named: `${is} ${value}` }
  const iss = values.issuer ?? issuerOfOperator
  if (iss === '') throw new BadUsage('say with --issuer who has issued it')
  return { subject: { format, iss, [member]: value }, named: `${is} ${value} of ${iss}` }
}

function issuerIn (token: string | undefined): string | undefined {
  try {
    return token === undefined ? undefined : decodeJwt(token).iss
  } catch {
    return undefined
  }
}
