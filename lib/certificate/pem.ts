const PEM = /^-----BEGIN CERTIFICATE-----\s([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----\s*$/

/** The DER form of the one certificate in a PEM text (RFC 7468 section 5). Undefined for any other text, also for two certificates. */
export function pemBody (text: string | undefined): Buffer | undefined {
  const base64 = text === undefined ? undefined : PEM.exec(text)?.[1]?.replace(/\s/g, '')
  return base64 !== undefined && /^[A-Za-z0-9+/]+={0,2}$/.test(base64) ? Buffer.from(base64, 'base64') : undefined
}
