import { styleText } from 'node:util'
import { decodeJsonObject } from '../lib/guard/jose/signed-jwt.ts'
import type { Exchange } from './exchange.ts'
import { parseJson } from './input.ts'

export interface Output {
  write (text: string): unknown
  isTTY?: boolean
}

type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan'

/** Colours text, only on a terminal and not with NO_COLOR. */
export type Paint = (style: Style, text: string) => string

export function createPaint (out: Output, env: NodeJS.ProcessEnv): Paint {
  const plain = out.isTTY !== true || env['TERM'] === 'dumb' || (env['NO_COLOR'] ?? '') !== ''
  // The stream was asked above; Node would ask its own standard output.
  return plain ? (_style, text) => text : (style, text) => styleText(style, text, { validateStream: false })
}

/** An answer is shown on a terminal, so it may not steer it, nor turn the direction in which it is read. */
export const terminalText = (text: string) =>
  text.replaceAll('\r\n', '\n').replace(/[^\P{Cc}\t\n]|[\u2028-\u202e\u2066-\u2069]/gu, '\ufffd')

/** The same for what has one line: it cannot pass for a line of ours. */
export const terminalLine = (text: string) => terminalText(text).replace(/[\t\n]/g, '\ufffd')

export const indent = (text: string) => text.replace(/^(?=.)/gm, '  ')

export function title (paint: Paint, text: string): string {
  return `\n${paint('bold', text)}\n`
}

function shorten (text: string): string {
  return text.length <= 72 ? text : `${text.slice(0, 48)}\u2026 (${text.length} characters)`
}

/** The request without the bytes that only a machine reads, unless `full` asks for them. */
export function showRequest (paint: Paint, { method, url, requestHeaders }: Exchange, full: boolean): string {
  const lines = Object.entries(requestHeaders).map(([name, value]) => {
    const secret = /^basic /i.test(value) ? 'Basic (hidden)' : value
    return `${paint('cyan', name)}: ${full ? secret : shorten(secret)}`
  })
  return indent([paint('bold', `${method} ${url}`), ...lines].join('\n')) + '\n'
}

export function showAnswer (paint: Paint, { status, statusText, headers, body }: Exchange): string {
  const style = status >= 200 && status < 300 ? 'green' : 'red'
  const lines = [...headers]
    .filter(([name]) => SHOWN.has(name))
    .map(([name, value]) => `${paint('cyan', name)}: ${terminalText(value)}`)
  const text = body === '' ? [] : [terminalText(JSON.stringify(parseJson(body), null, 2) ?? body)]
  return indent([paint(style, `${status} ${terminalText(statusText)}`), ...lines, ...text].join('\n')) + '\n'
}

const SHOWN = new Set([
  'www-authenticate',
  'dpop-nonce',
  'retry-after',
  'content-type',
  'cache-control',
  'location',
  'x-request-id',
  'holdfast-revocation',
  'date'
])

/** Header and claims of a JWT, its times beside what they mean. Nothing is verified. */
export function showJwt (paint: Paint, jwt: string, nowSeconds: number): string {
  const [header, claims] = jwt.split('.', 2).map(decodeJsonObject)
  if (header === undefined || claims === undefined) {
    return indent(paint('yellow', 'not a JWT, so there is nothing to decode')) + '\n'
  }
  return indent(`${paint('dim', 'header')} ${terminalText(JSON.stringify(header, null, 2))}`) + '\n' +
    indent(`${paint('dim', 'claims')} ${withTimes(paint, claims, nowSeconds)}`) + '\n'
}

function withTimes (paint: Paint, claims: Record<string, unknown>, nowSeconds: number): string {
  const text = terminalText(JSON.stringify(claims, null, 2))
  return text.replace(
    /^ {2}"(?:iat|exp|nbf)": (\d+),?$/gm,
    (line: string, seconds: string) => `${line} ${paint('dim', relative(Number(seconds) - nowSeconds))}`
  )
}

function relative (seconds: number): string {
  const distance = Math.abs(seconds)
  const text = distance < 120
    ? `${distance} s`
    : distance < 7200
      ? `${Math.round(distance / 60)} min`
      : `${Math.round(distance / 3600)} h`
  if (seconds === 0) return '(now)'
  return seconds > 0 ? `(in ${text})` : `(${text} ago)`
}
