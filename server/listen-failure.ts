/** A port or an address that cannot be had. `setting` names the port if it is not that of the service itself. */
type ListenError = NodeJS.ErrnoException & { address?: string, hostname?: string, port?: number, setting?: string }

/**
 * What an operator can do about a port or address that cannot be had, in one sentence, or undefined if the error is
 * another one.
 */
export function listenFailure (
  { code, hostname, address = hostname, port, setting = 'PORT or --port' }: ListenError
): string | undefined {
  if (code === 'EADDRINUSE') {
    return `Port ${port} of ${address} is in use by another program: end it, or set ${setting} to a port that is free.`
  }
  if (code === 'EACCES') {
    return `Port ${port} of ${address} may not be opened by this user: set ${setting} to 1024 or more.`
  }
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
    return `${address} is not an address of this machine: give one that is with --address.`
  }
  return undefined
}
