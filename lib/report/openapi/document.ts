/** The parts of an OpenAPI 3.1 document that this service reads and writes. */
export interface OpenapiDocument {
  openapi: string
  info: {
    readonly title: string,
    readonly version: string,
    readonly description?: string,
    readonly license?: { readonly name: string, readonly identifier: string }
  }
  tags?: ReadonlyArray<{ readonly name: string, readonly description: string }>
  servers?: ReadonlyArray<{ readonly url: string }>
  paths: Record<string, Record<string, Operation>>
  components: Components
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

export interface Components {
  readonly securitySchemes: Readonly<
    Record<string, { readonly type: string, readonly scheme: string, readonly description: string }>
  >
  readonly parameters: Readonly<Record<string, Parameter>>
  readonly responses: Readonly<Record<string, Response>>
  readonly schemas: Readonly<Record<string, JsonSchema>>
}

export interface Operation {
  operationId?: string
  summary?: string
  description?: string
  tags?: readonly string[]
  /** Any one of them is enough. Empty if nothing is needed. An empty one is for requests without credentials. */
  security?: ReadonlyArray<Readonly<Record<string, readonly string[]>>>
  parameters?: Array<Parameter | Reference>
  requestBody?: { readonly content: Content }
  responses: Record<string, Response | Reference>
  /** What stands in the body for the credentials of the header. */
  'x-body-credentials'?: string
  /** What the route asks for beyond scopes: one entry for each guard that does. */
  'x-requirements'?: readonly object[]
}

export interface Reference {
  readonly $ref: string
}

export interface Parameter {
  readonly name: string
  readonly in: string
  readonly required?: boolean
  readonly description?: string
  readonly example?: unknown
  readonly schema: JsonSchema
}

/** Bodies by media type. */
type Content = Readonly<
  Record<string, {
    readonly schema: JsonSchema | Reference,
    readonly example?: unknown,
    readonly examples?: Readonly<Record<string, { readonly value: unknown }>>
  }>
>

export interface Response {
  readonly description: string
  readonly headers?: Readonly<
    Record<string, { readonly description?: string, readonly required?: boolean, readonly schema: JsonSchema }>
  >
  readonly content?: Content
}

export interface JsonSchema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly description?: string
  readonly required?: readonly string[]
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly additionalProperties?: JsonSchema
  readonly items?: JsonSchema
  readonly anyOf?: readonly JsonSchema[]
  readonly enum?: readonly unknown[]
  readonly examples?: readonly unknown[]
  readonly minimum?: number
  readonly maxLength?: number
}

/** Returns a part of a document. If the part is a reference, it is looked up. */
export function resolveReference<Part extends object> (document: OpenapiDocument, part: Part | Reference): Part {
  if (!('$ref' in part)) return part
  const [, , kind, name] = part.$ref.split('/')
  return (document.components as unknown as Record<string, Record<string, Part>>)[kind!]![name!]!
}
