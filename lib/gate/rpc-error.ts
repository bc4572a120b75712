import { STATUS_CODES } from 'node:http'
import { Refusal } from '../refusal.ts'
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
 */
export function rpcErrorBody (error: GateFault, status: number, request: Buffer): string {
  return `{"jsonrpc":"2.0","id":${idOf(request)},"error":${JSON.stringify(rpcErrorOf(error, status))}}`
}

type GateFault = Error & { readonly rpcCode?: number }

function rpcErrorOf (error: GateFault, status: number): object {
  const { message } = error
  if (status >= 500) {
    // What has failed is for the log only, unless the sentence is one of ours.
    return { code: RPC_CODES.internalError, message: error instanceof Refusal ? message : STATUS_CODES[status]! }
  }
  if (error instanceof Refusal) return { code: RPC_CODES.refused, message, data: { reason: error.reason } }
  return { code: error.rpcCode ?? RPC_CODES.invalidRequest, message }
}

/** The id of a request as it is written there: a client compares it with its own. A notification has none. */
function idOf (request: Buffer): string {
  const id = request.length === 0 ? undefined : memberAt(request, 0, 'id')
  return id ? request.toString('utf8', id.start, id.end) : 'null'
}
