import {
  resolveReference,
  type JsonSchema,
  type OpenapiDocument,
  type Operation,
  type Parameter,
  type Response
} from '../../lib/report/openapi/document.ts'
import type { Requirement } from '../../lib/guard/requirement/requirement.ts'
import { curlExample, exampleRequest } from './curl-example.ts'
import { quote } from './curl-line.ts'
import { code, escape, link, prose, table } from './html.ts'

/**
 * Where the page has the address of the service. Only the address differs between clients. The rest is the same for
 * everyone and is made once. No text of a document holds this character.
 */
export const ADDRESS_MARK = '\u0000'

/** An operation of the document, with its place. */
export interface Entry {
  readonly method: string
  readonly path: string
  readonly operation: Operation
}

/** One operation on the page of `/docs`. */
export function renderOperation (document: OpenapiDocument, { method, path, operation }: Entry): string {
  const { operationId, summary, description, security = [], requestBody, 'x-body-credentials': signed } = operation
  // The header of guards is the same everywhere: it stands once, under Credentials.
  const parameters = (operation.parameters ?? []).filter((parameter): parameter is Parameter =>
    !('$ref' in parameter)
  )
  // The answers of guards are the same everywhere: they stand once, at the end.
  const answers = Object.entries(operation.responses).filter(([, response]) => !('$ref' in response)).map((
    [status, response]
  ) => renderAnswer(document, status, response))
  const refusals = Object.entries(operation.responses).flatMap(([status, response]) =>
    '$ref' in response ? [link(anchor(String(response.$ref)), status)] : []
  )
  const ofDpop = security.find(requirement => 'DPoP' in requirement)?.['DPoP']
  const call = curlExample(document, { method, path, operation, address: ADDRESS_MARK })
  return `<article id="${escape(operationId)}">
<h3>${link(operationId, titleOf(method, path))}</h3>
<p>${guardOf(operation)}</p>
${[summary, description].filter(text => text !== undefined).map(text => `<p>${prose(text)}</p>`).join('\n')}
${
    security.length === 0
      ? `<p>${signed === undefined ? 'Open to everyone' : `Credentials: in the body, ${escape(signed)}`}.</p>`
      : `<p>Credentials: ${security.map(renderSecurity).join(', or ')}.</p>`
  }
<pre><code>${escape(call)}</code></pre>
${ofDpop ? `<pre><code>${escape(dpopLine(document, { method, path, operation }, ofDpop))}</code></pre>\n` : ''}${
    parameterTable(parameters)
  }
${requestBody === undefined ? '' : table(['Body', 'Members'], Object.entries(requestBody.content).map(([type, { schema }]) => [code(type), renderSchema(document, schema)]))}
${answers.length === 0 ? '' : table(['Status', 'Answer', 'Body'], answers)}
${refusals.length === 0 ? '' : `<p>Refusals: ${refusals.join(', ')}.</p>`}
</article>`
}

/** Parameters as a table; nothing if there are none. */
export function parameterTable (parameters: readonly Parameter[]): string {
  if (parameters.length === 0) return ''
  return table(
    ['Parameter', 'Where', 'Meaning'],
    parameters.map((
      { name, in: place, required, description }
    ) => [code(name), escape(required ? `${place}, required` : place), prose(description)])
  )
}

/** What a route asks for beside scopes. */
const FURTHER: Readonly<Partial<Record<keyof Requirement, string>>> = {
  claims: 'claims',
  acr: 'kind of login',
  maxAgeSeconds: 'recent login',
  authorizationDetails: 'authorization details'
}

/** The scopes that pass, each set in words. */
export function scopeSets (security: NonNullable<Operation['security']>): readonly string[] {
  return [
    ...new Set(security.flatMap(Object.values).filter(scopes => scopes.length > 0).map(scopes => scopes.join(' and ')))
  ]
}

/** Who may call, in a few words: what the eye looks for. */
export function guardOf (
  { security = [], 'x-requirements': further = [], 'x-body-credentials': signed }: Operation
): string {
  if (signed !== undefined) return '<span class="guard">signed body</span>'
  if (security.length === 0) return '<span class="guard open">open</span>'
  const sets = scopeSets(security)
  const words = [
    security.some(requirement => Object.keys(requirement).length === 0) ? 'token, optional' : 'token',
    ...sets.length > 0 ? [sets.join(' or ')] : [],
    ...new Set(
      further.flatMap(requirement =>
        Object.keys(requirement).flatMap(member => FURTHER[member as keyof Requirement] ?? [])
      )
    )
  ]
  return words.map(word => `<span class="guard">${escape(word)}</span>`).join(' ')
}

/** The call with DPoP: a tool makes the proof. */
function dpopLine (document: OpenapiDocument, entry: Entry, scopes: readonly string[]): string {
  const { target, body } = exampleRequest(document, entry)
  return [
    `npm run call -- --url '${ADDRESS_MARK}' --dpop ${entry.method.toUpperCase()} ${quote(target)}`,
    ...scopes.length > 0 ? [`--scope ${quote(scopes.join(' '))}`] : [],
    ...loginWords(entry.operation),
    ...body === undefined
      ? []
      : body.type === 'application/json'
        ? [`--json ${quote(body.text)}`]
        : [`--header ${quote(`Content-Type: ${body.type}`)} --data ${quote(body.text)}`]
  ].join(' ')
}

/** A token without a user has no login, so a route that asks for one gets a user of the local provider. */
function loginWords ({ 'x-requirements': further = [] }: Operation): string[] {
  const acr = further.flatMap(requirement => (requirement as { acr?: readonly string[] }).acr?.[0] ?? [])
  const isAsked = acr.length > 0 || further.some(requirement => 'maxAgeSeconds' in requirement)
  return [...isAsked ? ['--user ada'] : [], ...acr.slice(0, 1).map(value => `--param ${quote(`acr_values=${value}`)}`)]
}

function renderSecurity (requirement: Readonly<Record<string, readonly string[]>>): string {
  if (Object.keys(requirement).length === 0) return 'none'
  return Object.entries(requirement).map(([scheme, scopes]) =>
    code(scheme) + (scopes.length === 0 ? '' : ` with ${scopes.map(code).join(' and ')}`)
  ).join(' and ')
}

function renderAnswer (document: OpenapiDocument, status: string, response: Operation['responses'][string]): string[] {
  const { description, content = {} } = resolveReference<Response>(document, response)
  const [body] = Object.values(content)
  const example = body?.example === undefined
    ? ''
    : `<br>for example ${code(typeof body.example === 'string' ? body.example : JSON.stringify(body.example))}`
  return [code(status), prose(description), body ? renderSchema(document, body.schema) + example : '']
}

/** A schema in one line: an object with its members and their types. */
function renderSchema (document: OpenapiDocument, schema: JsonSchema): string {
  const { type, properties, additionalProperties, items, anyOf } = schema.$ref
    ? resolveReference<JsonSchema>(document, schema as { $ref: string })
    : schema
  if (anyOf) return anyOf.map(choice => renderSchema(document, choice)).join(' or ')
  if (items) return `list of ${renderSchema(document, items)}`
  if (additionalProperties) return `object of ${renderSchema(document, additionalProperties)}`
  if (properties) {
    return Object.entries(properties).map(([name, member]) => `${code(name)} ${renderSchema(document, member)}`).join(
      '<br>'
    )
  }
  return escape([type ?? 'anything'].flat().join(' or '))
}

export const titleOf = (method: string, path: string): string => `${method.toUpperCase()} ${path}`
export const anchor = (reference: string): string =>
  `refusal-${reference.slice(reference.lastIndexOf('/') + 1).toLowerCase()}`
