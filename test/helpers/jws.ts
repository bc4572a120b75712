/** A compact JWS of a header and payload, each an object, or the very text or bytes to encode. */
export function encodeJws (
  header: object | string | Buffer,
  payload: object | string | Buffer,
  signer: (input: Buffer) => Buffer
): string {
  const encode = (part: object | string | Buffer) =>
    Buffer.from(typeof part === 'string' || Buffer.isBuffer(part) ? part as string : JSON.stringify(part)).toString(
      'base64url'
    )
  const input = `${encode(header)}.${encode(payload)}`
  return `${input}.${signer(Buffer.from(input)).toString('base64url')}`
}
