import {
  resolveReference,
  type Content,
  type JsonSchema,
  type OpenapiDocument,
  type Operation,
  type Parameter
} from '../../lib/report/openapi/document.ts'
import { curlLine, headerWords, quote } from './curl-line.ts'

/** An operation of a document, with its place. */
interface Place {
  readonly method: string
  /** As the document has it, such as `/api/users/{path}`. */
  readonly path: string
  readonly operation: Operation
}

/**
 * The call of an operation as one command for a POSIX shell. It takes the access token from `TOKEN`, and the proof from
 * `PROOF` if only DPoP is accepted.
 * @param address the address of the service, without a slash at its end
 */
export function curlExample (document: OpenapiDocument, { address, ...place }: Place & { address: string }): string {
  const { target, body } = exampleRequest(document, place)
  const schemes = (place.operation.security ?? []).flatMap(Object.keys)
  return curlLine(
    place.method.toUpperCase(),
    ...schemes.includes('Bearer')
      ? ['-H "Authorization: Bearer $TOKEN"']
      : schemes.includes('DPoP')
        ? ['-H "Authorization: DPoP $TOKEN"', '-H "DPoP: $PROOF"']
        : [],
    ...body ? [...headerWords([['Content-Type', body.type]]), `--data-raw ${quote(body.text)}`] : [],
    quote(address + target)
  )
}

/**
 * What a call of an operation sends. Parameters and body are the examples of the document. If it has none, they are
 * made to fit their types.
 */
export function exampleRequest (
  document: OpenapiDocument,
  { path, operation }: Place
): { target: string, body: { type: string, text: string } | undefined } {
  const parameters = (operation.parameters ?? []).map(parameter => resolveReference<Parameter>(document, parameter))
  const valueOf = ({ example, in: place, schema }: Parameter): string =>
    encodeURIComponent(String(example ?? sampleOf(document, schema, place === 'path' ? '7' : undefined)))
  const target = path.replace(
    /\{(\w+)\}/g,
    (_match, name) =>
      valueOf(parameters.find(parameter => parameter.in === 'path' && parameter.name === name) ?? UNDESCRIBED)
  )
  const query = parameters.filter(parameter => parameter.in === 'query' && parameter.required).map(parameter =>
    `${encodeURIComponent(parameter.name)}=${valueOf(parameter)}`
  ).join('&')
  return { target: target + (query && `?${query}`), body: exampleBody(document, operation.requestBody?.content) }
}

/** A part of a path that the route's own schema leaves out. */
const UNDESCRIBED: Parameter = { name: '', in: 'path', schema: { type: 'string' } }

function exampleBody (document: OpenapiDocument, content: Content = {}): { type: string, text: string } | undefined {
  const [entry] = Object.entries(content)
  if (!entry) return undefined
  const [type, { schema, example, examples = {} }] = entry
  const value = example ?? Object.values(examples)[0]?.value ?? sampleOf(document, schema)
  return { type, text: typeof value === 'string' ? value : JSON.stringify(value) }
}

/** A value that fits a schema, as far as its types say. @param text what stands for any text */
function sampleOf (
  document: OpenapiDocument,
  schema: JsonSchema | { readonly $ref: string },
  text = 'text'
): unknown {
  const { examples, enum: choices, anyOf, type, properties = {}, required = [], minimum = 1 } = resolveReference<
    JsonSchema
  >(document, schema as JsonSchema)
  if (examples) return examples[0]
  if (choices) return choices[0]
  if (anyOf) return sampleOf(document, anyOf[0]!)
  switch ([type].flat()[0]) {
    case 'object':
      return Object.fromEntries(required.map(name => [name, sampleOf(document, properties[name] ?? {})]))
    case 'array':
      return []
    case 'integer':
    case 'number':
      return minimum
    case 'boolean':
      return true
    default:
      return text
  }
}
