/**
 * An odd number of so many bits as a modulus in base64url, without the seconds that a real key of that size takes.
 * `leadingZeros` bytes go in front; `firstByte` (0x80 to 0xff) makes numbers of one size differ.
 */
export function oddNumber (bits: number, leadingZeros = 0, firstByte = 0xff): string {
  const bytes = Buffer.alloc(leadingZeros + bits / 8, 0xff).fill(0, 0, leadingZeros)
  bytes[leadingZeros] = firstByte
  return bytes.toString('base64url')
}

/** A public key that parses; it has no private half. */
export function rsaJwk (kid: string | undefined, firstByte = 0xff): { kty: 'RSA', kid?: string, n: string, e: string } {
  return { kty: 'RSA', ...(kid === undefined ? {} : { kid }), n: oddNumber(2048, 0, firstByte), e: 'AQAB' }
}
