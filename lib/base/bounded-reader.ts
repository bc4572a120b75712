import { isIPv6 } from 'node:net'
import { finished, type Readable, type Writable } from 'node:stream'
import type { Surroundings } from './surroundings.ts'

/** The client may go on sending a body that is not read. */
export const CLOSE = { connection: 'close' }
/** Most bodies are shorter. Less than half of the pool of Node, so that it needs no memory of its own. */
const FIRST_BYTES = 2048

type BodyStatus = 408 | 413 | 499 | 503

export interface BoundedReaderOptions {
  /** Of one body. */
  readonly maxBytes: number
  /** Each piece of a body costs more than its bytes. */
  readonly maxPieces?: number
  /** Of all bodies that are held at once. */
  readonly maxHeldBytes: number
  /** Milliseconds for a whole body. */
  readonly timeoutMs: number
  /**
   * 408: too slow. 413: too large. 499: its client has gone. 503: too many are held. The message is a fixed sentence.
   */
  readonly errorOf: (status: BodyStatus, message: string, headers: Readonly<Record<string, string>>) => Error
  readonly after: Surroundings['after']
}

/**
 * Reads a whole body. Its bytes are counted as they arrive and until the answer has ended: for all, and for each of
 * those who send it. Where there is no room, the body that has been unfinished for longest gives way: no client keeps
 * the room from others by sending slowly.
 * @throws what `errorOf` makes. What a client still sends is then dropped, and nothing of it is held.
 */
export type BodyReader = (source: Readable, answer: Writable, senders?: readonly BodySender[]) => Promise<Buffer>

/** An address or a caller, and the bytes that it may have. */
export interface BodySender {
  readonly name: string
  readonly maxBytes: number
}

/** What is held of all senders, or of one. */
interface Share {
  bytes: number
  /** What ends the reading of each body that is not whole, and of which something is held. The oldest comes first. */
  readonly unfinished: Set<() => void>
}

const EMPTY = Buffer.alloc(0)

/** The sender at an address. One host has all the addresses of its /64. */
export function senderAt (address: string, maxBytes: number): BodySender {
  return { name: `address ${networkOf(address)}`, maxBytes }
}

function networkOf (address: string): string {
  if (!isIPv6(address)) return address
  const ipv4 = /^::ffff:([\d.]+)$/i.exec(address)?.[1]
  if (ipv4 !== undefined) return ipv4
  const [front, back] = new URL(`http://[${address.replace(/%.*/, '')}]`).hostname.slice(1, -1).split('::')
  const groups = (part = '') => part.split(':').filter(group => group !== '')
  const missing = back === undefined ? 0 : 8 - groups(front).length - groups(back).length
  return [...groups(front), ...Array(missing).fill('0'), ...groups(back)].slice(0, 4).join(':')
}

export function createBoundedReader (
  { maxBytes, maxPieces = Infinity, maxHeldBytes, timeoutMs, errorOf, after }: BoundedReaderOptions
): BodyReader {
  const everyone: BodySender = { name: '', maxBytes: maxHeldBytes }
  /** Of each sender of whom anything is held. */
  const shareOf = new Map<string, Share>()
  const shareNamed = (name: string) => shareOf.get(name) ?? { bytes: 0, unfinished: new Set() }

  return (source, answer, senders = []) =>
    new Promise<Buffer>((resolve, reject) => {
      // Its own share first, so that a sender takes no room of others that its own bodies have.
      const limits = [...senders, everyone]
      // One buffer that grows: a client may send each byte in a chunk of its own.
      let bytes = EMPTY
      let size = 0
      let pieces = 0
      let isEnded = false
      const stop = after(timeoutMs, () => fail(408, 'The body of the request is too slow.'))
      source.on('data', take)
      // They are called for what has ended or closed before, too.
      finished(source, { writable: false }, error => error ? isGone() : end())
      finished(answer, () => {
        isGone()
        release()
      })

      function take (chunk: Buffer) {
        const needed = size + chunk.length
        if (needed > maxBytes || ++pieces > maxPieces) return fail(413, 'The body of the request is too large.')
        if (needed > bytes.length && !grow(needed)) return giveWay()
        chunk.copy(bytes, size)
        size = needed
      }
      function grow (needed: number) {
        const length = Math.min(maxBytes, Math.max(needed, 2 * bytes.length, FIRST_BYTES))
        const more = length - bytes.length
        if (!limits.every(limit => makeRoom(limit, more))) return false
        count(more)
        bytes = Buffer.concat([bytes], length)
        return true
      }
      function makeRoom ({ name, maxBytes }: BodySender, more: number) {
        const share = shareNamed(name)
        while (share.bytes + more > maxBytes) {
          const [oldest] = share.unfinished
          if (!oldest || oldest === giveWay) return false
          oldest()
        }
        return true
      }
      function count (more: number) {
        for (const { name } of limits) {
          const share = shareNamed(name)
          share.bytes += more
          if (more > 0) share.unfinished.add(giveWay)
          if (share.bytes > 0) shareOf.set(name, share)
          else shareOf.delete(name)
        }
      }

      function giveWay () {
        fail(503, 'Too many bodies are being read.', { 'retry-after': '1' })
      }
      function isGone () {
        fail(499, 'The client has gone.')
      }
      /** It changes nothing once the body is whole. */
      function fail (status: BodyStatus, message: string, headers: object = {}) {
        if (isEnded) return
        reject(errorOf(status, message, { ...CLOSE, ...headers }))
        end()
        release()
      }
      function end () {
        isEnded = true
        stop()
        source.off('data', take).resume()
        for (const { name } of limits) shareOf.get(name)?.unfinished.delete(giveWay)
        resolve(bytes.subarray(0, size))
      }
      function release () {
        count(-bytes.length)
        bytes = EMPTY
      }
    })
}
