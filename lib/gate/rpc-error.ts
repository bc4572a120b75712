import { STATUS_CODES } from 'node:http'
import { Refusal, REFUSALS } from '../refusal.ts'
import { memberAt } from './json-text.ts'

/** JSON-RPC 2.0 section 5.1, and the codes of the Model Context Protocol. */
export const RPC_CODES = Object.freeze({
  /** The body is no JSON. */
  parseError: -32700,
  /** It is JSON of another shape, or too large. */
  invalidRequest: -32600,
  /** No rule is for the method. */
  methodNotFound: -32601,
  /** No rule is for the tool, prompt, resource or task. */
  invalidParams: -32602,
  /** The upstream, or this service, has failed. */
  internalError: -32603,
  /** The caller may not. */
  refused: -32000,
  /** A header says something else than the body. */
  headerMismatch: -32020
})

/**
 * The answer to a message of the Model Context Protocol that does not pass, as a client of the protocol understands it:
 * a refusal in another form ends its session.
 * @param status of the answer
 * @param request the JSON of the request. Empty if the body that was read is none
 * @param matches what its messages call, as the rules name it. Null if that is unknown
 */
export function rpcErrorBody (
  error: GateFault,
  status: number,
  request: Buffer,
  matches: readonly RuledCall[] | null
): string {
  return `{"jsonrpc":"2.0","id":${idOf(request)},"error":${JSON.stringify(rpcErrorOf(error, status, matches ?? []))}}`
}

type GateFault = Error & { readonly rpcCode?: number, readonly reason?: string }

/** A method and a tool by which a rule was found, as it names them. */
interface RuledCall {
  readonly method: string | undefined
  readonly tool: string | undefined
}

/** Some clients show their users the message alone, so it says what `data` does. */
function rpcErrorOf (error: GateFault, status: number, matches: readonly RuledCall[]): object {
  const { message, reason } = error
  const refusal = error instanceof Refusal ? error : undefined
  // What has failed is for the log only.
  if (!refusal && status >= 500) return { code: RPC_CODES.internalError, message: STATUS_CODES[status]! }
  const code = !refusal
    ? error.rpcCode ?? RPC_CODES.invalidRequest
    : status >= 500 ? RPC_CODES.internalError : RPC_CODES.refused
  const scope = refusal?.detail?.['missing']
  const isByRule = refusal ? REFUSALS[refusal.reason].error?.startsWith('insufficient_') : reason === 'argument_refused'
  // Of a batch, its client could not tell which message is meant.
  const [{ method, tool } = {}] = isByRule && matches.length === 1 ? matches : []
  const call = tool !== undefined ? { tool } : method !== undefined ? { method } : {}
  return {
    code,
    message: [
      message,
      scope && `Missing: ${scope}.`,
      ...Object.entries(call).map(([kind, name]) => `(${kind} ${name})`)
    ]
      .filter(Boolean).join(' '),
    ...reason !== undefined && { data: { reason, ...scope !== undefined && { scope }, ...call } }
  }
}

/** JSON-RPC 2.0 section 4: any other value can be no id. */
const ID = /^(?:"|-?\d)/

/** The id of a request as it is written there: a client compares it with its own. A notification has none. */
function idOf (request: Buffer): string {
  const id = request.length === 0 ? undefined : memberAt(request, 0, 'id')
  const text = id ? request.toString('utf8', id.start, id.end) : ''
  return ID.test(text) ? text : 'null'
}
