import { resolveReference } from '../lib/openapi/document.ts'
import type { Content, JsonSchema, OpenapiDocument, Operation, Parameter } from '../lib/openapi/document.ts'
import { curlLine, headerWords, quote } from './curl-line.ts'

/**
 * The call of an operation as one command for a POSIX shell. It takes the access token from `TOKEN`, and the proof from
 * `PROOF` if only DPoP is accepted. Parameters and body are the examples of the document. If it has none, they are made
 * to fit their types.
 * @param path as the document has it, such as `/api/users/{path}`
 * @param address the address of the service, without a slash at its end
 */
export function curlExample (
  document: OpenapiDocument,
  { method, path, operation, address }: { method: string, path: string, operation: Operation, address: string }
): string {
  const parameters = (operation.parameters ?? []).map(parameter => resolveReference<Parameter>(document, parameter))
  const valueOf = ({ example, schema }: Parameter): string =>
    encodeURIComponent(String(example ?? sampleOf(document, schema)))
  const target = path.replace(
    /\{(\w+)\}/g,
    (_match, name) =>
      valueOf(parameters.find(parameter => parameter.in === 'path' && parameter.name === name) ?? UNDESCRIBED)
  )
  const query = parameters.filter(parameter => parameter.in === 'query' && parameter.required).map(parameter =>
    `${encodeURIComponent(parameter.name)}=${valueOf(parameter)}`
  ).join('&')
  const schemes = (operation.security ?? []).flatMap(Object.keys)
  return curlLine(
    method.toUpperCase(),
    ...schemes.includes('Bearer')
      ? ['-H "Authorization: Bearer $TOKEN"']
      : schemes.includes('DPoP')
        ? ['-H "Authorization: DPoP $TOKEN"', '-H "DPoP: $PROOF"']
        : [],
    ...bodyWords(document, operation.requestBody?.content),
    quote(address + target + (query && `?${query}`))
  )
}

/** A part of a path that the route's own schema leaves out. */
const UNDESCRIBED: Parameter = { name: '', in: 'path', schema: { type: 'string' } }

function bodyWords (document: OpenapiDocument, content: Content = {}): string[] {
  const [entry] = Object.entries(content)
  if (!entry) return []
  const [type, { schema, example, examples = {} }] = entry
  const value = example ?? Object.values(examples)[0]?.value ?? sampleOf(document, schema)
  return [
    ...headerWords([['Content-Type', type]]),
    `--data-raw ${quote(typeof value === 'string' ? value : JSON.stringify(value))}`
  ]
}

/** A value that fits a schema, as far as its types say. */
function sampleOf (document: OpenapiDocument, schema: JsonSchema | { readonly $ref: string }): unknown {
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
      return 'text'
  }
}
