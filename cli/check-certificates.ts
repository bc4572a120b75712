import { certificateHeaders } from '../lib/guard/certificate/client-certificate.ts'
import { NO_TLS_SOCKET } from '../lib/settings/problems.ts'
import type { Settings } from '../lib/settings/settings.ts'
import { fault, fine, type Finding } from './findings.ts'

/** Shows where certificates of clients come from. Whether they come depends on the proxy in front. */
export function checkCertificates ({ server: { clientCertificate, trustProxy } }: Pick<Settings, 'server'>): Finding[] {
  const headers = certificateHeaders(clientCertificate)
  if (headers.length === 0) {
    return [
      fault(
        NO_TLS_SOCKET,
        'The service itself does not terminate TLS: let a proxy forward certificates in a header, or register ' +
          'the plugin in an application that terminates TLS.'
      )
    ]
  }
  const peers = trustProxy === true ? 'every peer' : (trustProxy as readonly string[]).join(', ')
  return [
    fine(
      `They are read from the header ${headers.join(' or ')}, from ${peers}. The proxy must take ` +
        `${headers.length === 1 ? 'that header' : 'these headers'} away from clients.`
    )
  ]
}
