import type { ProviderFailureWord } from '../../lib/guard/provider/provider-failure.ts'
import type { RedisFault } from '../../lib/guard/redis/redis-faults.ts'

/** What a fault of something that the service needs means, and what to do about it. */
interface Fault {
  readonly meaning: string
  readonly cure: string
}

/**
 * Why the keys of the provider could not be fetched. The table in docs/reference/monitoring.md is held equal to this
 * one by a test.
 */
export const PROVIDER_FAULTS: Readonly<Record<ProviderFailureWord, Fault>> = {
  deadline: {
    meaning: 'the documents did not arrive within 5 seconds',
    cure: 'the provider, the network, a firewall that drops packets, a proxy that hangs'
  },
  unreachable: {
    meaning: 'no connection, or it broke; `detail` is the code or name of the error',
    cure: 'DNS (`ENOTFOUND`), routing, port 443 outbound, `HTTPS_PROXY`'
  },
  tls: {
    meaning: 'the certificate is not trusted or not for that host',
    cure: 'the certificate chain of the provider. Behind an inspecting proxy, add its authority with ' +
      '`NODE_EXTRA_CA_CERTS`. `NODE_OPTIONS=--use-openssl-ca` trusts those of the system'
  },
  proxy: {
    meaning: 'the proxy refused the tunnel',
    cure: 'its rules and credentials, `NO_PROXY`'
  },
  status: {
    meaning: 'an HTTP status other than 200; `detail` is the status',
    cure: '`IDP_DOMAIN`, `IDP_ISSUER` or `IDP_JWKS_URI` may be misspelt, or the provider has a fault'
  },
  redirect: {
    meaning: 'the provider answered with a redirect; Holdfast follows none',
    cure: 'configure the address that it redirects to'
  },
  content_encoding: {
    meaning: 'the answer is compressed although Holdfast did not ask for that',
    cure: 'a proxy or CDN in front of the provider'
  },
  too_large: {
    meaning: 'a document of more than 1 MiB',
    cure: 'whether the address is that of a JWK Set'
  },
  not_json: {
    meaning: 'the answer is not JSON',
    cure: 'whether there is a login or maintenance page instead'
  },
  discovery_malformed: {
    meaning: 'the discovery document is not an object, or has no `issuer` or no `jwks_uri`',
    cure: 'the provider'
  },
  discovery_issuer: {
    meaning: 'the discovery document names another issuer',
    cure: '`IDP_ISSUER` must be exactly the `issuer` of that document; if only the address here is another (an ' +
      'internal one), set `IDP_JWKS_URI`'
  },
  jwks_uri_refused: {
    meaning: 'the discovery document names an address for the keys that is not `https:`',
    cure: 'the provider; `http:` is allowed only for an issuer on loopback'
  },
  set_malformed: {
    meaning: 'the document is not a JWK Set',
    cure: 'the address'
  },
  set_too_many_keys: {
    meaning: 'more than 100 entries; `detail` is their number',
    cure: 'the provider'
  },
  file_unreadable: {
    meaning:
      'the key file cannot be read; `detail` is the code of the error, `NOT_A_FILE` or `TOO_LARGE` (more than 1 MiB)',
    cure: '`IDP_KEYS_FILE`, the rights of the file, and whether it exists'
  },
  introspection_endpoint: {
    meaning: 'the discovery document names no `introspection_endpoint`',
    cure: 'set `IDP_INTROSPECTION_ENDPOINT`, or switch introspection on at the provider'
  },
  introspection_malformed: {
    meaning:
      'the answer about a token is not one of RFC 7662: `active` is not a boolean, or a signed answer is not for us',
    cure: 'the endpoint, `IDP_CLIENT_ID`, and `idp.introspection.signed`, which must be what the provider does'
  },
  introspection_signature: {
    meaning: 'the signature of a signed answer about a token is not by a key of the issuer',
    cure: 'the endpoint: it may belong to another tenant'
  },
  introspection_expired: {
    meaning: 'a signed answer about a token has expired (`exp`), or is not valid yet (`nbf`)',
    cure: 'the clocks of the provider and of this machine'
  },
  foreign_address: {
    meaning:
      'a document of a transmitter names an address that is neither at the origin of its `issuer` nor at that of ' +
      'its `metadata`',
    cure: 'the transmitter. If the address is right, set it: `tokenEndpoint`, or `endpoint` for polling'
  },
  stream_missing: {
    meaning: 'the transmitter has no stream that is for this service',
    cure: '`holdfast stream --ensure` creates it. If the client has several streams, set `streamId`; `holdfast ' +
      'stream` shows them'
  },
  unexpected: {
    meaning: 'a fault in Holdfast; `detail` is the name of the error',
    cure: 'please report it'
  }
}

/** Why the shared replay store cannot be used, as docs/reference/store.md has it. `connecting` is no fault yet. */
export const STORE_FAULTS: Readonly<Record<RedisFault | 'connecting', Fault>> = {
  connecting: {
    meaning: 'the first connection is being made',
    cure: 'wait; it becomes another reason within a second'
  },
  unreachable: {
    meaning: 'no connection, or it broke',
    cure: 'check host and port, DNS and firewall, the certificates of a cluster, and whether the server is running'
  },
  timeout: {
    meaning: 'connected, and no answer within 200 ms',
    cure: 'look for a server that hangs, swaps, or runs a slow command of another client; a network that drops ' +
      'packets; or `rediss:` for a port without TLS'
  },
  tls: {
    meaning: 'the certificate is not trusted or not for that host',
    cure: 'check its chain; `NODE_EXTRA_CA_CERTS` adds an authority'
  },
  auth: {
    meaning: 'user or password was refused, or the user lacks a right on the keys of this store',
    cure: 'check the URL, which must be percent-encoded, and the rights of the user'
  },
  not_redis: {
    meaning: 'something else answers there',
    cure: 'check the port'
  },
  readonly: {
    meaning: 'the server is a replica, or has lost its master',
    cure: 'name Sentinels or a cluster, so that Holdfast finds the master; wait for the failover'
  },
  oom: {
    meaning: 'its memory is full',
    cure: 'give it more memory, or shorten the window: [fewer seconds](../../bench/scaling.md#memory-for-each-window)'
  },
  evicts: {
    meaning: 'it has a memory limit and a policy that evicts keys',
    cure: 'set `maxmemory-policy noeviction`'
  },
  loading: {
    meaning: 'it is reading its data from disk',
    cure: 'wait'
  },
  cluster: {
    meaning: 'the server is a node of a cluster but the URL does not say so, or the reverse; or some slots of the ' +
      'cluster are not served',
    cure: 'add or remove `?cluster=true`; check the state of the cluster'
  },
  database: {
    meaning: 'no such database, or no right to it',
    cure: 'check the URL'
  },
  max_clients: {
    meaning: 'it accepts no more connections',
    cure: 'raise its `maxclients`; each instance has one connection to each node'
  },
  refused_write: {
    meaning: 'it refuses to write for another reason, such as a failed save to disk or too few replicas',
    cure: 'look at its log'
  }
}
