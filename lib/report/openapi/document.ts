/** The parts of an OpenAPI 3.1 document that this service reads and writes. */
export interface OpenapiDocument {
  openapi: string
  info: { readonly title: string, readonly version: string, readonly description?: string, readonly license?: object }
  tags?: ReadonlyArray<{ readonly name: string, readonly description: string }>
  paths: Record<string, Record<string, Operation>>
  components: {
    readonly securitySchemes: Readonly<Record<string, { type: string, scheme: string, description: string }>>,
    readonly parameters: Readonly<Record<string, object>>,
    readonly responses: Readonly<Record<string, Response>>,
    readonly schemas: Readonly<Record<string, object>>
  }
  /** The rules of a gate. */
  'x-rules'?: readonly DescribedRule[]
}

/** A rule of a gate: the requests that it is for, and in a sentence what they need. */
export interface DescribedRule {
  readonly path: string
  readonly methods: readonly string[] | undefined
  /** Of the Model Context Protocol: methods, or `tools/call` and a tool. */
  readonly messages: readonly string[] | undefined
  readonly needs: string
}

export interface Operation {
  operationId?: string
  summary?: string
  description?: string
  tags?: readonly string[]
  /** Any one of them is enough. Empty if nothing is needed. An empty one is for requests without credentials. */
  security?: ReadonlyArray<Readonly<Record<string, readonly string[]>>>
  parameters?: Array<Readonly<Record<string, unknown>>>
  responses: Record<string, Response | { readonly $ref: string }>
  /** What stands in the body for the credentials of the header. */
  'x-body-credentials'?: string
  /** What the route asks for beyond scopes: one entry for each guard that does. */
  'x-requirements'?: readonly object[]
}

export interface Response {
  readonly description: string
  /** By name. */
  readonly headers?: object
  /** By media type. */
  readonly content?: object
}
