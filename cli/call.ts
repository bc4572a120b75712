import { hash, X509Certificate } from 'node:crypto'
import { hasTenants, runTool } from './arguments.ts'
import { BadUsage } from './bad-usage.ts'
import { readCallOptions, TOOL, type CallOptions, type CallWorld } from './call-options.ts'
import { exchange, exchangeWithNonce, type Exchange } from './exchange.ts'
import { explainNoToken } from './no-token.ts'
import { createProof, createProofKey, requestToken, type ProofKey } from './token.ts'
import { indent, showAnswer, showJwt, showRequest, title, type Paint } from './show.ts'

/**
 * Makes one call as the arguments say and shows all of it; of a refused one the reason, and all of it with --full.
 * Returns the exit code: 0 for a 2xx, else 1.
 */
export function call (argv: readonly string[], world: CallWorld): Promise<number> {
  return runTool(
    TOOL,
    argv,
    world,
    (args, paint) =>
      run(readCallOptions(args, world.env, hasTenants(world) ? world.tenants ?? [] : undefined), world, paint)
  )
}

async function run (options: CallOptions, world: CallWorld, paint: Paint): Promise<number> {
  const { env, out } = world
  const sent: string[] = []
  if (options.connection?.cert !== undefined) {
    sent.push(
      title(paint, 'Certificate') +
        indent(`${paint('cyan', 'x5t#S256')} ${thumbprintOf(options.connection.cert)}`) + '\n'
    )
  }
  const key = options.dpop ? await proofKey(options.alg) : undefined
  const token = await obtainToken(options, key, env, paint, sent)
  if (token === undefined) {
    out.write(sent.join(''))
    return 1
  }
  const send = async (nonce?: string): Promise<Exchange> => {
    if (nonce !== undefined) {
      sent.push(`\n${paint('yellow', 'The service wants its nonce in the proof. Trying again with it.')}\n`)
    }
    const shown = await callApi(options, token, key, nonce, env)
    const proof = shown.requestHeaders['DPoP']
    if (proof !== undefined) sent.push(title(paint, 'Proof') + showJwt(paint, proof, seconds()))
    sent.push(
      title(paint, 'Request') + showRequest(paint, shown, options.full),
      title(paint, 'Answer') + showAnswer(paint, shown)
    )
    return shown
  }
  const { answer } = key === undefined ? { answer: await send() } : await exchangeWithNonce(send)
  const isGood = answer.status >= 200 && answer.status < 300
  if (isGood || options.full) out.write(sent.join(''))
  if (isGood) return 0
  if (!options.full) {
    out.write(
      title(paint, 'Request') + showRequest(paint, answer, false) + title(paint, 'Answer') + showAnswer(paint, answer)
    )
  }
  // Only a refused call needs the checks of the service, and the time that they take to load.
  const { explainCall } = await import('./call-explanation.ts')
  out.write(await explainCall(answer, options, world, paint))
  if (!options.full && token !== null) {
    out.write(`\n${paint('dim', '--full shows all that was sent, and each check.')}\n`)
  }
  return 1
}

/** The token to send, null for none, undefined if the provider gave none. What was sent for it is added to `story`. */
async function obtainToken (
  options: CallOptions,
  key: ProofKey | undefined,
  env: NodeJS.ProcessEnv,
  paint: Paint,
  story: string[]
): Promise<string | null | undefined> {
  if (options.token === null) return null
  if (options.token !== undefined) {
    story.push(title(paint, 'Access token, from CALL_TOKEN') + showJwt(paint, options.token, seconds()))
    return options.token
  }
  const requested = await requestToken({ ...options, key }, env)
  const { exchange: answer, parameters, token } = requested
  const sent = Object.entries(parameters).map(([name, value]) => `${paint('cyan', name)}=${value}`).join('\n')
  const proof = key === undefined ? '' : `, with a proof of the key ${key.thumbprint}`
  story.push(
    title(paint, `Token request, as ${options.body}${proof}`) +
      indent(`${paint('bold', `POST ${answer.url}`)}\n${sent}`) + '\n'
  )
  if (token === undefined) {
    story.push(title(paint, 'The provider gave no token') + showAnswer(paint, answer))
    story.push(explainNoToken(requested, options, Date.now(), paint))
    return undefined
  }
  story.push(title(paint, 'Access token') + showJwt(paint, token, seconds()))
  return token
}

async function callApi (
  options: CallOptions,
  token: string | null,
  key: ProofKey | undefined,
  nonce: string | undefined,
  env: NodeJS.ProcessEnv
): Promise<Exchange> {
  const { method, url, htu = url, headers, payload, connection } = options
  const credentials: Record<string, string> = {}
  if (token !== null) credentials['Authorization'] = `${key === undefined ? 'Bearer' : 'DPoP'} ${token}`
  if (token !== null && key !== undefined) {
    credentials['DPoP'] = await createProof(key, { method, url: htu, nonce, token })
  }
  return exchange({
    method,
    url,
    headers: { ...credentials, ...headers },
    connection,
    ...payload !== undefined && { body: payload }
  }, env)
}

async function proofKey (alg: string): Promise<ProofKey> {
  try {
    return await createProofKey(alg)
  } catch {
    throw new BadUsage(`"${alg}" is not an algorithm that a proof can be signed with`)
  }
}

/** What `cnf["x5t#S256"]` of a token holds that is bound to the certificate (RFC 8705 section 3.1). */
const thumbprintOf = (pem: string): string => hash('sha256', new X509Certificate(pem).raw, 'base64url')

const seconds = (): number => Math.floor(Date.now() / 1000)
