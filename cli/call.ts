import { runTool } from './arguments.ts'
import { readCallOptions, TOOL, type CallOptions, type CallWorld } from './call-options.ts'
import { exchange, exchangeWithNonce, type Exchange } from './exchange.ts'
import { createProof, createProofKey, requestToken, type ProofKey } from './token.ts'
import { indent, showAnswer, showJwt, showRequest, title, type Paint } from './show.ts'

/** Makes one call as the arguments say, and shows it. Returns the exit code: 0 for a 2xx, else 1. */
export function call (argv: readonly string[], world: CallWorld): Promise<number> {
  return runTool(TOOL, argv, world, async (args, paint) => {
    const options = readCallOptions(args, world.env, world.tenants)
    const { sent, answer } = await makeCall(options, world.env, paint)
    if (!answer || answer.status < 200 || answer.status >= 300) {
      return reportFailure(sent, answer, options, world, paint)
    }
    world.out.write(sent.join(''))
    return 0
  })
}

/** A call that was made. */
interface Made {
  /** All that was sent for it and came back, as it is shown. */
  readonly sent: readonly string[]
  /** The last answer, or undefined if the provider gave no token. */
  readonly answer: Exchange | undefined
}

/** Gets a token, unless there is to be none, and calls the API with it. */
export async function makeCall (options: CallOptions, env: NodeJS.ProcessEnv, paint: Paint): Promise<Made> {
  const { method, url, headers, payload, addresses } = options
  const sent: string[] = []
  const key = options.dpop ? await createProofKey() : undefined
  const token = await obtainToken(options, key, env, paint, sent)
  if (token === undefined) return { sent, answer: undefined }
  const send = async (nonce?: string) => {
    if (nonce !== undefined) {
      sent.push(`\n${paint('yellow', 'The service wants its nonce in the proof. Trying again with it.')}\n`)
    }
    const credentials = token !== null && {
      Authorization: `${key ? 'DPoP' : 'Bearer'} ${token}`,
      ...key && { DPoP: await createProof(key, { method, url, nonce, token }) }
    }
    const shown = await exchange(
      { method, url, headers: { ...credentials, ...headers }, body: payload, addresses },
      env
    )
    const proof = shown.requestHeaders['DPoP']
    if (proof !== undefined) sent.push(title(paint, 'Proof') + showJwt(paint, proof, seconds()))
    sent.push(
      title(paint, 'Request') + showRequest(paint, shown, options.full),
      title(paint, 'Answer') + showAnswer(paint, shown)
    )
    return shown
  }
  const { answer } = key === undefined ? { answer: await send() } : await exchangeWithNonce(send)
  return { sent, answer }
}

/** Shows a call that was refused, and why; all that was sent only with --full. Returns the exit code. */
export async function reportFailure (
  sent: Made['sent'],
  answer: Exchange | undefined,
  { full }: CallOptions,
  world: CallWorld,
  paint: Paint
): Promise<number> {
  const { out } = world
  // The last two are request and answer.
  out.write((full || !answer ? sent : sent.slice(-2)).join(''))
  if (answer) {
    // Only a refused call needs the checks of the service, and the time that they take to load.
    const { reportCall } = await import('./call-report.ts')
    out.write(await reportCall(answer, { readFile: () => undefined, ...world, now: seconds() }, full, paint))
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
  const { exchange: answer, parameters, token } = await requestToken({ ...options, key }, env)
  const sent = Object.entries(parameters).map(([name, value]) =>
    `${paint('cyan', name)}=${SECRET.test(name) ? '(hidden)' : value}`
  ).join('\n')
  const proof = key === undefined ? '' : `, with a proof of the key ${key.thumbprint}`
  story.push(
    title(paint, `Token request, as ${options.body}${proof}`) +
      indent(`${paint('bold', `POST ${answer.url}`)}\n${sent}`) + '\n',
    token === undefined
      ? title(paint, 'The provider gave no token') + showAnswer(paint, answer)
      : title(paint, 'Access token') + showJwt(paint, token, seconds())
  )
  return token
}

/** Parameters of other grants (RFC 6749, RFC 7521, RFC 8693) that nobody else may read. */
const SECRET = /(?:^code|password|token|assertion)$/

const seconds = () => Math.floor(Date.now() / 1000)
