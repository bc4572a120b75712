/** How the codes begin. The last one is that of a TLS connection to a proxy. */
const TLS_CODES = new RegExp(
  '^(?:ERR_TLS|ERR_SSL|ERR_OSSL|EPROTO|CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|HOSTNAME_MISMATCH|INVALID_CA' +
    '|UND_ERR_PRX_TLS)'
)

/** Whether the code of a connection error says that TLS has failed, for example because of a certificate. */
export function isTlsCode (code: string): boolean {
  return TLS_CODES.test(code)
}
