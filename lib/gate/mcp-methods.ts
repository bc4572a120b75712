/**
 * The methods of the Model Context Protocol, in all revisions from 2025-03-26 to 2026-07-28 and in its extension for
 * tasks. A test holds both tables to those of the newest SDK, so that the next revision is noticed.
 */

export const TOOL_CALL = 'tools/call'
export const TOOL_LIST = 'tools/list'

/** The members of `params` that name what a message is about. */
type NamingMember = 'name' | 'uri' | 'taskId'

/** The methods whose messages name what they are about, and the member of `params` that does. `Mcp-Name` repeats it. */
export const NAMED_BY: ReadonlyMap<string, NamingMember> = new Map([
  [TOOL_CALL, 'name'],
  ['prompts/get', 'name'],
  ['resources/read', 'uri'],
  ['tasks/get', 'taskId'],
  ['tasks/update', 'taskId'],
  ['tasks/cancel', 'taskId']
])

/** All methods that the protocol has. Those of extensions are unknown to the gate. */
export const PROTOCOL_METHODS: ReadonlySet<string> = new Set([
  ...NAMED_BY.keys(),
  'initialize',
  'ping',
  'server/discover',
  'subscriptions/listen',
  'completion/complete',
  'logging/setLevel',
  'elicitation/create',
  'roots/list',
  'sampling/createMessage',
  TOOL_LIST,
  'prompts/list',
  'resources/list',
  'resources/templates/list',
  'resources/subscribe',
  'resources/unsubscribe',
  'tasks/list',
  'tasks/result',
  'notifications/cancelled',
  'notifications/elicitation/complete',
  'notifications/initialized',
  'notifications/message',
  'notifications/progress',
  'notifications/prompts/list_changed',
  'notifications/resources/list_changed',
  'notifications/resources/updated',
  'notifications/roots/list_changed',
  'notifications/subscriptions/acknowledged',
  'notifications/tasks/status',
  'notifications/tools/list_changed'
])

/** With one of these a client begins: in revisions with sessions, and in those without. */
export const FIRST_METHODS: readonly string[] = ['initialize', 'server/discover']
