import type { IncomingMessage } from 'node:http'

/**
 * What Node keeps for a request without header lines, and for its answer. Measured: 2.3 KB on Node 20, 2.6 KB on Node
 * 24.
 */
const REQUEST_BYTES = 2_560
/** A text that has waited is in old space: it takes memory for some time after its request. */
const TEXT_COST = 4
/** As much as Node reads of a body before it stops. */
const MAX_BODY_BYTES = 64 * 1024

/** Bytes that a request takes while it waits, at most. */
export function sizeOf ({ url, rawHeaders, headers }: IncomingMessage): number {
  let textBytes = url!.length
  for (const text of rawHeaders) textBytes += text.length
  const length = headers['transfer-encoding'] === undefined ? Number(headers['content-length'] ?? 0) : MAX_BODY_BYTES
  return REQUEST_BYTES + TEXT_COST * textBytes + Math.min(length, MAX_BODY_BYTES)
}
