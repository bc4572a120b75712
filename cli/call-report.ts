import { blank, completeHost, readUrl } from './capture.ts'
import type { Exchange } from './exchange.ts'
import { showFindings } from './explain-report.ts'
import { judgeCapture } from './judge-capture.ts'
import { readAnswerLine } from './read-capture.ts'
import type { Paint } from './show.ts'

/** Why a call was refused, by the checks of the service: what `explain` would say of it. */
export async function reportCall (
  { method, url, requestHeaders, sentBody, status, headers, body }: Exchange,
  world: Parameters<typeof judgeCapture>[2],
  full: boolean,
  paint: Paint
): Promise<string> {
  const capture = { ...blank(true), method, status, answerBody: body, ...sentBody !== undefined && { body: sentBody } }
  readUrl(capture, url)
  completeHost(capture, url)
  capture.headers.push(...Object.entries(requestHeaders))
  for (const [name, value] of headers) readAnswerLine(capture, `${name}: ${value}`)
  return showFindings(await judgeCapture(capture, {}, world), full, paint)
}
