/** A compact JWS of a header and payload, each an object or the very text to encode. */
export function encodeJws (header: object | string, payload: object | string, signer: (input: Buffer) => Buffer): string {
  const encode = (part: object | string) => Buffer.from(typeof part === 'string' ? part : JSON.stringify(part)).toString('base64url')
  const input = `${encode(header)}.${encode(payload)}`
  return `${input}.${signer(Buffer.from(input)).toString('base64url')}`
}
