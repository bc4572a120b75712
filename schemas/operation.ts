/** The bodies of the endpoints for balancers and operators, and of the metadata for clients. */
const string = { type: 'string' } as const
const strings = { type: 'array', items: string } as const

export const aliveSchema = {
  type: 'object',
  properties: {
    status: string,
    version: string,
    commit: { type: 'string', description: 'What it was built from, if the build says so.' }
  }
} as const

export const readySchema = {
  type: 'object',
  properties: {
    status: string,
    checks: { type: 'object', additionalProperties: string },
    observing: {
      type: 'object',
      description: 'Nothing is guarded until the end of this day (UTC).',
      properties: { until: string }
    },
    streams: {
      type: 'object',
      description: 'The stream of each transmitter of security events.',
      additionalProperties: {
        type: 'object',
        properties: {
          status: string,
          verifiedAt: { type: 'number', description: 'Unix seconds of its last verification.' }
        }
      }
    },
    issuers: {
      type: 'object',
      additionalProperties: string,
      description: 'The state of the keys of each issuer, if there are several.'
    }
  }
} as const

export const metricsSchema = {
  type: 'string',
  description: 'The metrics, in the text format of Prometheus.',
  examples: ['# TYPE holdfast_requests_total counter\n']
} as const

/** RFC 9728 section 2. */
export const resourceMetadataSchema = {
  type: 'object',
  description: 'Metadata of this protected resource (RFC 9728).',
  required: ['resource', 'bearer_methods_supported', 'dpop_bound_access_tokens_required'],
  properties: {
    resource: string,
    authorization_servers: strings,
    scopes_supported: strings,
    bearer_methods_supported: strings,
    resource_name: string,
    resource_documentation: string,
    dpop_bound_access_tokens_required: { type: 'boolean' },
    dpop_signing_alg_values_supported: strings,
    tls_client_certificate_bound_access_tokens: { type: 'boolean' }
  }
} as const
