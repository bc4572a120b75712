import type { RefusalDetail } from '../refusal.ts'
import { RPC_CODES } from './rpc-error.ts'

/**
 * Why the doors of a gate refuse, beside the reasons of the guard: no rule holds; a message, or the question of a
 * proxy, cannot be judged; a call says something else than its rule asks for.
 */
export const GATE_REASONS = ['no_rule', 'message_refused', 'question_refused', 'argument_refused'] as const
export type GateReason = typeof GATE_REASONS[number]

/** A request does not pass, whoever sends it. The message is a fixed sentence. */
export class GateError extends Error {
  override readonly name = 'GateError'
  /**
   * 400: its messages cannot be judged. 403: the authorization request of a proxy cannot be judged, or
   * an argument does not fit. 404: it has no
   * rule. About its body: 408: too slow. 413: too large. 499: its client has gone. 503: too many bodies are held at
   * once.
   */
  readonly statusCode: 400 | 403 | 404 | 408 | 413 | 499 | 503
  /** Of the answer. */
  readonly headers: Readonly<Record<string, string>> | undefined
  /** The code of JSON-RPC, for an answer in that form. */
  readonly rpcCode: number
  /** Of what a proxy asks, another reason than `no_rule` is `question_refused` in the log. */
  readonly reason: GateReason
  /** For the log. Its `path` is only for the log at `debug`: it may hold a secret. */
  readonly detail: RefusalDetail | undefined

  constructor (
    statusCode: GateError['statusCode'],
    message: string,
    { headers, rpcCode = RPC_CODES.invalidRequest, detail, reason }: Partial<
      Pick<GateError, 'headers' | 'rpcCode' | 'detail' | 'reason'>
    > = {}
  ) {
    super(message)
    this.statusCode = statusCode
    this.headers = headers
    this.rpcCode = rpcCode
    this.detail = detail
    this.reason = reason ?? (statusCode === 404 ? 'no_rule' : 'message_refused')
  }
}
