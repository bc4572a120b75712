import type { CallOptions } from './call-options.ts'
import { clockAheadOf, sayClock } from './compare-clocks.ts'
import { readObject } from './exchange.ts'
import { indent, terminalLine, title, type Paint } from './show.ts'
import type { TokenAnswer } from './token.ts'

interface Known extends Pick<TokenAnswer, 'discovery'> {
  readonly options: Pick<CallOptions, 'audience' | 'issuer' | 'tenant' | 'alg'>
}

/**
 * Why the provider gave no token, by the `error` of its answer (RFC 6749 section 5.2, RFC 8707 section 2, RFC 9449
 * section 5), and what can be asked for as far as that is known. Empty if there is nothing to say.
 * @param nowMs milliseconds since the epoch
 */
export function explainNoToken (
  { exchange, discovery }: Pick<TokenAnswer, 'exchange' | 'discovery'>,
  options: Known['options'],
  nowMs: number,
  paint: Paint
): string {
  const { error } = readObject(exchange)
  const name = typeof error === 'string' ? error : ''
  const cure = CURES.get(name)?.({ discovery, options })
  const lines = [
    ...sayClock(clockAheadOf(exchange.headers, nowMs), 'provider'),
    ...cure === undefined ? [] : [`${paint('cyan', 'What to do')}      ${cure}`]
  ]
  if (lines.length === 0) return ''
  return title(paint, name === '' ? 'Why' : `Why: ${terminalLine(name)}`) + indent(lines.join('\n')) + '\n'
}

const CURES: ReadonlyMap<string, (known: Known) => string> = new Map<string, (known: Known) => string>([
  ['invalid_target', ({ options: { audience, issuer, tenant } }) => {
    const own = tenant !== undefined && tenant.issuer === issuer && tenant.audience !== audience
      ? ` The local tenant knows ${tenant.audience}.`
      : ''
    return `--audience must name an API that the provider knows, as it is registered there.${own} Some providers ` +
      'need --param resource=URI instead.'
  }],
  ['invalid_scope', ({ discovery }) =>
    `--scope asks for what the provider does not grant to this client.${listed(discovery, 'scopes_supported')}`],
  ['invalid_client', () =>
    'Compare --client-id and CALL_CLIENT_SECRET with the client at the provider, and how it authenticates: --body ' +
    'json puts the secret into the body, --cert shows a certificate.'],
  ['unauthorized_client', useOtherClient],
  ['unsupported_grant_type', useOtherClient],
  ['invalid_dpop_proof', ({ discovery, options: { alg } }) =>
    'The provider refuses the proof of the token request. Its iat is the time of this machine: set the clock by NTP. ' +
    `It is signed with ${alg} (--alg).${listed(discovery, 'dpop_signing_alg_values_supported')}`]
])

function useOtherClient (): string {
  return 'Allow the client the grant client_credentials at the provider, or set CALL_TOKEN to the token of a login.'
}

/** A list of the discovery document, in a sentence. */
function listed (discovery: Known['discovery'], name: string): string {
  const values = discovery[name]
  return Array.isArray(values) && values.length > 0
    ? ` The provider lists ${terminalLine(values.slice(0, 20).join(', '))}.`
    : ''
}
