/**
 * Why a token or a request of a sender is refused, in the words of RFC 8935 section 2.4 and SSF 1.0 section 8.1.4.2.
 * The description is a fixed sentence.
 */
export class SetError extends Error {
  override readonly name = 'SetError'
  readonly err:
    | 'invalid_request'
    | 'invalid_key'
    | 'invalid_issuer'
    | 'invalid_audience'
    | 'authentication_failed'
    | 'invalid_state'
    /** Of an operator: what it may not act for (RFC 6749). */
    | 'access_denied'

  constructor (description: string, err: SetError['err'] = 'invalid_request') {
    super(description)
    this.err = err
  }
}

/** What is not as its format asks for. @param fault such as `the subject has no format` */
export function misunderstood (fault: string): SetError {
  return new SetError(`The message cannot be understood: ${fault}.`)
}
