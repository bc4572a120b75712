import { createHash } from 'node:crypto'

/** The longest that is kept as it is. A subject may fill a token, and so would the memory of whoever counts by it. */
const MAX_CHARS = 128

/**
 * The name under which requests of one client are counted: the key that its token is bound to (RFC 7638 thumbprint), else the subject,
 * which every token has. Not the client id (RFC 9068 section 2.2): many providers write none, and where one application serves many
 * users, one of them could use up what the others may send. Names of the two kinds never meet, and none is longer than 128 characters.
 */
export function clientKey (jkt: string | undefined, sub: string): string {
  const name = jkt === undefined ? `sub:${sub}` : `jkt:${jkt}`
  return name.length <= MAX_CHARS ? name : createHash('sha256').update(name).digest('base64url')
}
