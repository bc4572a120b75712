import { decodeEscapes } from '../url/http-url.ts'

/** A Redis as settings name it: its URL, or that with the files of TLS, which are in PEM form. */
export type RedisPlace = string | { readonly url: string } & { readonly [Name in TlsFile]?: { readonly file: string } }

/** What the client shows and trusts in place of its defaults. */
export const TLS_FILES = ['cert', 'key', 'ca'] as const
type TlsFile = (typeof TLS_FILES)[number]

/** Where a Redis is, and the texts of its files. */
export interface RedisTarget extends ReturnType<typeof parseRedisUrl> {
  readonly files?: { readonly [Name in TlsFile]?: string }
}

const PARAMETERS = ['sentinel', 'sentinelUsername', 'sentinelPassword', 'cluster']
const SHAPE = 'redis[s]://[[user]:password@]host[:port][,host[:port]...][/database][?sentinel=name | ?cluster=true]'

/**
 * Reads the URL of a Redis: one server, several Sentinels (`?sentinel=name`) or nodes of a cluster
 * (`?cluster=true`). If the Sentinels have a login of their own, it is in `sentinelUsername` and `sentinelPassword`.
 * User, password and parameters are percent-decoded.
 *
 * @throws Error whose message says what is wrong. It holds no part of the URL except the names of parameters.
 */
export function parseRedisUrl (place: RedisPlace) {
  const text = typeof place === 'string' ? place : place.url
  const [, scheme, userInfo, authority, path, query] =
    /^(rediss?):\/\/(?:([^/?#\s]*)@)?([^/?#@\s]+)(\/[^?#\s]*)?(\?[^#\s]*)?$/.exec(text) ??
      refuse('it is not a URL of that form')
  const parameters = readParameters(query)
  const hosts = authority!.split(',').map(readHost)
  const sentinel = parameters.get('sentinel') || undefined
  const cluster = parameters.get('cluster') === 'true'
  const db = readDatabase(path)

  if (parameters.has('cluster') && !cluster) refuse('cluster must be true')
  if (parameters.has('sentinel') && !sentinel) refuse('sentinel must name a master')
  if (!sentinel && (parameters.has('sentinelUsername') || parameters.has('sentinelPassword'))) {
    refuse('sentinelUsername and sentinelPassword need sentinel')
  }
  if (sentinel && cluster) refuse('sentinel and cluster cannot be combined')
  if (cluster && db !== 0) refuse('a cluster has only database 0')
  if (hosts.length > 1 && !sentinel && !cluster) refuse('several hosts need sentinel or cluster')

  return {
    tls: scheme === 'rediss',
    hosts,
    ...readUserInfo(userInfo),
    db,
    /** The name by which Sentinels know the master. If it is set, the hosts are the Sentinels. */
    sentinel,
    sentinelUsername: parameters.get('sentinelUsername') || undefined,
    sentinelPassword: parameters.get('sentinelPassword') || undefined,
    /** The hosts are nodes of a Redis Cluster. */
    cluster
  }
}

/** The hosts as text, `host:port`: nothing of a login. */
export function hostsOf ({ hosts }: RedisTarget): string[] {
  return hosts.map(({ host, port }) => `${host.includes(':') ? `[${host}]` : host}:${port}`)
}

function refuse (why: string): never {
  throw new Error(`the URL of the Redis cannot be used: ${why}; it looks like ${SHAPE}`)
}

function readUserInfo (text: string | undefined): { username: string | undefined, password: string | undefined } {
  if (!text) return { username: undefined, password: undefined }
  const colon = text.indexOf(':')
  if (colon < 0) refuse('it names a user without a password')
  return {
    username: decode(text.slice(0, colon)) || undefined,
    password: decode(text.slice(colon + 1)) || refuse('the password is empty')
  }
}

function readHost (text: string): { host: string, port: number } {
  const [, address, name, port = '6379'] = /^(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9._-]+))(?::(\d{1,5}))?$/.exec(text) ??
    refuse('a host is malformed')
  if (Number(port) < 1 || Number(port) > 65535) refuse('a port is out of range')
  return { host: (address ?? name)!, port: Number(port) }
}

function readDatabase (path = ''): number {
  if (path === '' || path === '/') return 0
  if (!/^\/\d{1,5}$/.test(path)) refuse('the database is not a number')
  return Number(path.slice(1))
}

function readParameters (query = ''): URLSearchParams {
  const parameters = new URLSearchParams(query)
  for (const name of parameters.keys()) {
    if (!PARAMETERS.includes(name)) refuse(`there is an unknown parameter; the known ones are ${PARAMETERS.join(', ')}`)
  }
  return parameters
}

function decode (text: string): string {
  return decodeEscapes(text) ?? refuse('a percent sign must be written as %25')
}
