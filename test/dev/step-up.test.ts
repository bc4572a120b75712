import { decodeJwt } from 'jose'
import * as openid from 'openid-client'
import t, { type Test } from 'tap'
import { exactly } from '../helpers/containing.ts'
import { startProvider } from '../../dev/provider/provider.ts'
import devRoutes from '../../dev/serve/dev-routes.ts'
import type { RequirementOptions } from '../../lib/guard/requirement/requirement.ts'
import { startApp } from '../helpers/app.ts'
import { atAnotherTime } from '../helpers/clock.ts'
import { AUDIENCE, type Issuer } from '../helpers/issuer.ts'
import { createVisitor } from '../helpers/visitor.ts'

const CALLBACK = 'http://localhost:3999/callback'

const provider = await startProvider({ audience: AUDIENCE, redirectUris: [CALLBACK] })
t.teardown(() => provider.close())
const config = await openid.discovery(new URL(provider.issuer), provider.browserClientId, undefined, openid.None(), {
  execute: [openid.allowInsecureRequests]
})

/** Logs people in by openid-client, in one session at the provider. */
function createUser () {
  const { visit } = createVisitor(provider.issuer)
  return {
    /** An access token, or the error of the provider. `DPoP` binds it. */
    async logIn (asked: Record<string, string> = {}, DPoP?: openid.DPoPHandle) {
      const verifier = openid.randomPKCECodeVerifier()
      const { url } = await visit(openid.buildAuthorizationUrl(config, {
        redirect_uri: CALLBACK,
        scope: 'openid read:messages',
        resource: AUDIENCE,
        login_hint: 'ada',
        code_challenge: await openid.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
        ...asked
      }))
      return (await openid.authorizationCodeGrant(
        config,
        url,
        { pkceCodeVerifier: verifier },
        undefined,
        DPoP && { DPoP }
      )).access_token
    }
  }
}

/** The parameters of the new login, as openid-client reads them from the challenge on the scheme that was used. */
function askedFor (error: openid.WWWAuthenticateChallengeError, scheme: string) {
  const { parameters } = error.cause.find(challenge => challenge.scheme === scheme)!
  const { error: code, acr_values: acrValues, max_age: maxAge } = parameters
  if (code !== 'insufficient_user_authentication') throw new Error(`the challenge says ${code}`)
  return { ...acrValues && { acr_values: acrValues }, ...maxAge && { max_age: maxAge } }
}

async function refusalOf (call: Promise<Response>) {
  const error = await call.then(() => undefined, (error: unknown) => error)
  if (error instanceof openid.WWWAuthenticateChallengeError) return error
  throw new Error('the call was not refused', { cause: error })
}

const start = (t: Test, requirement: RequirementOptions) =>
  startApp(t, { url: provider.issuer } as Issuer, {}, app => {
    app.register(async scope => {
      scope.get('/payments', { onRequest: scope.require(requirement) }, () => 'paid')
    })
  })

const ROWS: ReadonlyArray<
  {
    title: string,
    requirement: RequirementOptions,
    loginSecondsAgo: number,
    reason: string,
    asked: Record<string, string>
  }
> = [
  {
    title: 'an old login',
    requirement: { maxAgeSeconds: 60 },
    loginSecondsAgo: 120,
    reason: 'authentication_too_old',
    asked: { max_age: '60' }
  },
  {
    title: 'a login without the second factor',
    requirement: { acr: 'urn:example:mfa' },
    loginSecondsAgo: 0,
    reason: 'acr_missing',
    asked: { acr_values: 'urn:example:mfa' }
  },
  {
    title: 'both, where either kind would do',
    requirement: { acr: ['urn:example:card', 'urn:example:mfa'], maxAgeSeconds: 60 },
    loginSecondsAgo: 120,
    reason: 'acr_missing',
    asked: { acr_values: 'urn:example:card urn:example:mfa', max_age: '60' }
  }
]

for (const bound of [false, true]) {
  for (const { title, requirement, loginSecondsAgo, reason, asked } of ROWS) {
    t.test(
      `${title}, ${bound ? 'DPoP' : 'Bearer'}: openid-client gets the required login in the challenge, logs in ` +
        'again, and is served.',
      async t => {
        const running = await start(t, requirement)
        const url = new URL(`${running.url}/payments`)
        const DPoP = bound ? openid.getDPoPHandle(config, await openid.randomDPoPKeyPair('ES256')) : undefined
        const call = (token: string) =>
          openid.fetchProtectedResource(config, token, url, 'GET', undefined, undefined, DPoP && { DPoP })
        const user = createUser()
        const old = await atAnotherTime(-loginSecondsAgo, () => user.logIn({}, DPoP))
        t.match(decodeJwt(old), { acr: exactly('urn:example:password'), auth_time: Number })
        const again = await user.logIn({}, DPoP)
        t.equal(
          decodeJwt(again)['auth_time'],
          decodeJwt(old)['auth_time'],
          'a new token out of the same session is no new login'
        )
        for (const token of [old, again]) {
          const refusal = await refusalOf(call(token))
          t.equal(refusal.status, 401)
          t.strictSame(askedFor(refusal, bound ? 'dpop' : 'bearer'), asked)
        }
        const better = await user.logIn(asked, DPoP)
        t.equal((await call(better)).status, 200, 'after the required login')
        t.strictSame(running.reasons(), [reason, reason])
      }
    )
  }
}

t.test('The provider publishes the acr values that it knows, and refuses others.', async t => {
  t.strictSame(config.serverMetadata()['acr_values_supported'], ['urn:example:password', 'urn:example:mfa'])
  const user = createUser()
  const error = await user.logIn({ acr_values: 'urn:example:card' }).catch((error: openid.AuthorizationResponseError) =>
    error.error
  )
  t.equal(error, 'unmet_authentication_requirements')
  t.hasStrict(decodeJwt(await user.logIn({ acr_values: 'urn:example:mfa' })), { acr: 'urn:example:mfa' })
})

t.test('A client without a user has no login.', async t => {
  const body = new URLSearchParams({
    grant_type: 'client_credentials',
    client_id: provider.clientId,
    client_secret: provider.clientSecret,
    resource: AUDIENCE
  })
  const { access_token: token } = await (await fetch(provider.tokenEndpoint, { method: 'POST', body })).json() as {
    access_token: string
  }
  const claims = decodeJwt(token)
  t.strictSame(['acr' in claims, 'auth_time' in claims], [false, false])
})

t.test('The sample route of the playground wants a login of the last minute.', async t => {
  const running = await startApp(t, { url: provider.issuer } as Issuer, {}, app => {
    app.register(devRoutes)
  })
  const call = (token: string) =>
    openid.fetchProtectedResource(config, token, new URL(`${running.url}/dev/recent-login`), 'GET')
  const user = createUser()
  const refusal = await refusalOf(call(await atAnotherTime(-61, () => user.logIn())))
  t.strictSame(askedFor(refusal, 'bearer'), { max_age: '60' })
  t.match(await (await call(await user.logIn(askedFor(refusal, 'bearer')))).json(), { message: /./ })
})
