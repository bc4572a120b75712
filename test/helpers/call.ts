import type { Test } from 'tap'
import { REFUSALS, type RefusalReason } from '../../lib/refusal.ts'
import type { RunningApp } from './app.ts'
import { parseChallenges, type Challenge } from './challenges.ts'
import { sendRaw } from './wire.ts'

export interface Outcome {
  status: number
  headers: Record<string, string>
  challenges: readonly Challenge[]
  body: any
  /** The reason in the log, or undefined for an accepted request. */
  reason: RefusalReason | undefined
}

interface CallParts {
  method?: string
  path?: string
  /** Header lines after Host, as they go over the wire. */
  lines?: readonly string[]
}

/** One request over a socket, and what came of it. One call at a time: the reason is the last one in the log. */
export async function call (
  { url, reasons }: RunningApp,
  { method = 'GET', path = '/api/private', lines = [] }: CallParts = {}
): Promise<Outcome> {
  const before = reasons().length
  const answer = await sendRaw(url, [
    `${method} ${path} HTTP/1.1`,
    `Host: ${new URL(url).host}`,
    'Connection: close',
    ...lines
  ])
  const value = answer.headers['www-authenticate']
  return {
    status: answer.status,
    headers: answer.headers,
    challenges: value === undefined ? [] : parseChallenges(value),
    body: answer.body === '' ? undefined : JSON.parse(answer.body),
    reason: reasons()[before] as RefusalReason | undefined
  }
}

/** The header lines of a request with a token and, for the DPoP scheme, a proof. */
export const bearerLines = (token: string): string[] => [`Authorization: Bearer ${token}`]
export const dpopLines = (token: string, proof: string): string[] => [`Authorization: DPoP ${token}`, `DPoP: ${proof}`]

/** One request with a token, by the scheme Bearer. */
export const callBearer = (running: RunningApp, token: string, path?: string): Promise<Outcome> =>
  call(running, { path, lines: bearerLines(token) })

/** One request with a token and a proof, by the scheme DPoP. */
export const callDpop = (running: RunningApp, token: string, proof: string, path?: string): Promise<Outcome> =>
  call(running, { path, lines: dpopLines(token, proof) })

/** Asserts a refusal in full: its reason in the log, and the status, sentence and challenge that go with it. */
export function expectRefusal (
  t: Test,
  outcome: Outcome,
  reason: RefusalReason,
  scheme?: string,
  title: string = reason
) {
  const { status, error, description } = REFUSALS[reason]
  const marked = outcome.challenges.filter(({ parameters }) => 'error' in parameters)
  t.strictSame({
    reason: outcome.reason,
    status: outcome.status,
    message: outcome.body?.message,
    challenge: marked.map(({ scheme, parameters }) => [scheme, parameters.error, parameters.error_description])
  }, {
    reason,
    status,
    message: description,
    challenge: error && scheme ? [[scheme, error, description]] : []
  }, title)
}

/** Asserts that a token is refused with the scheme Bearer, in full. */
export async function expectBearerRefusal (
  t: Test,
  running: RunningApp,
  token: string,
  reason: RefusalReason,
  title?: string
) {
  expectRefusal(t, await callBearer(running, token), reason, 'Bearer', title)
}
