import { setTimeout as delay } from 'node:timers/promises'
import type { RedisLogOptions } from '../../lib/revocation/redis-log.ts'
import * as scripts from '../../lib/revocation/redis-scripts.ts'

/** Waits of the log are so many times shorter here. */
export const HASTE = 20

type Listeners = Parameters<RedisLogOptions['open']>[0]

type Row = readonly [id: string, fields: readonly [name: string, text: string]]

/** As much of a Redis as the log needs, in memory. */
export function startRevocationStore () {
  const links = new Set<Listeners>()
  const store = {
    rows: [] as Row[],
    epoch: null as string | null,
    clock: null as string | null,
    cleaned: null as string | null,
    /** Whether others are restoring for as long as the test says. */
    isRestoring: false,
    /** Called before each command and script, with the name of it. */
    onCall (_name: string): void {},
    /** What the answer to a write waits for. */
    written: Promise.resolve(),
    leaders: new Map<string, string>(),
    /** Of the server. It is part of each id. */
    clockMs: 1_800_000_000_000,
    /** What becomes of commands. */
    fault: undefined as Error | 'hang' | undefined,
    isUp: true,
    /** The arguments of waits for news. */
    asked: [] as string[][],
    /** The most that waited for news at once. */
    mostWaiting: 0,
    /** Entries that were sent to a reader. */
    sent: 0,
    empty () {
      Object.assign(store, { rows: [], epoch: null, clock: null, cleaned: null })
    },
    drop () {
      store.isUp = false
      for (const link of links) link.close()
    },
    rise () {
      store.isUp = true
      for (const link of links) link.ready()
    },
    emitError (error: Error) {
      for (const link of links) link.error(error)
    },
    open (listeners: Listeners) {
      links.add(listeners)
      if (store.isUp) setImmediate(listeners.ready)
      return {
        call,
        close: () => {
          links.delete(listeners)
        }
      }
    },
    /** @returns its id */
    add (text: string, id?: string): string {
      return add(text, id)
    }
  }
  let count = 0
  let waiting = 0
  const rowsAfter = (id: string, limit: string): Row[] =>
    store.rows.filter(row => numberOf(row[0]) > numberOf(id)).slice(0, Number(limit))
  const isThere = (id: string): boolean => id === '0-0' || store.cleaned === id || store.rows.some(row => row[0] === id)

  /** Ids never go back, whatever the clock does. */
  function add (
    text: string,
    id = `${Math.max(store.clockMs, Number(store.rows.at(-1)?.[0].split('-')[0] ?? 0))}-${++count}`
  ): string {
    store.rows.push([id, ['e', text]])
    return id
  }

  async function answering (): Promise<void> {
    if (store.fault === 'hang') await new Promise(() => {})
    if (store.fault instanceof Error) throw store.fault
    if (!store.isUp) throw new Error('Connection is closed.')
  }

  async function call (command: string, ...given: ReadonlyArray<string | number>): Promise<unknown> {
    const args = given.map(String)
    if (command === 'eval') {
      const [script, keys, ...rest] = args
      const name = Object.entries(scripts).find(([, text]) => text === script)![0]
      store.onCall(name)
      await answering()
      return await SCRIPTS[name]!(...rest.slice(name === 'LEAD' ? 0 : Number(keys)))
    }
    if (command === 'xread') {
      store.asked.push(args)
      store.mostWaiting = Math.max(store.mostWaiting, ++waiting)
      await delay(2)
      waiting--
    }
    store.onCall(command)
    await answering()
    switch (command) {
      case 'xrevrange':
        return store.rows.slice(-1)
      case 'xrange':
        return store.rows.filter(([id]) => numberOf(id) < numberOf(args[2]!.replace('(', ''))).slice(0, Number(args[4]))
    }
    return null
  }

  const SCRIPTS: Record<string, (...args: string[]) => unknown> = {
    READ (after, limit, epoch, isBehind, seen, now) {
      const rows = rowsAfter(after!, limit!)
      store.sent += rows.length
      if (store.epoch === null || !isThere(after!) || isBehind === '1' || store.isRestoring) store.epoch = epoch!
      if (store.clock === null || (store.clock === seen && Number(now) >= Number(store.clock) + 500)) store.clock = now!
      return [
        store.epoch,
        store.clock,
        store.cleaned ?? '0-0',
        store.rows.length,
        Number(isThere(after!)),
        rows.at(-1)?.[0] ?? after,
        rows.map(([, [, text]]) => text)
      ]
    },
    async APPEND (...texts) {
      for (const text of texts) add(text)
      await store.written
      return null
    },
    REWRITE (after, limit, epoch, gone, ...rest) {
      if (epoch !== '') store.epoch = epoch!
      const rows = rowsAfter(after!, limit!)
      const came = rows.map(([, [, text]]) => text!)
      if (rows.length === Number(limit) || !isThere(after!) || came.some(text => text.includes('"undo"'))) {
        return [0, rows.at(-1)?.[0] ?? after, came]
      }
      const ids = rest.splice(0, Number(gone))
      const last = rest.map(text => add(text)).at(-1) ?? rows.at(-1)?.[0] ?? after
      store.rows = store.rows.filter(([id]) => !ids.includes(id))
      if (ids.length > 0) store.cleaned = ids.at(-1)!
      return [1, last, came]
    },
    FIND: (...ids) => ids.findIndex(id => store.rows.some(row => row[0] === id)) + 1,
    LEAD (name, instance) {
      if (!store.leaders.has(name!)) store.leaders.set(name!, instance!)
      return store.leaders.get(name!) === instance ? 1 : 0
    }
  }

  return store
}

function numberOf (id: string): number {
  const [ms, sequence] = id.split('-')
  return Number(ms) * 1000 + Number(sequence)
}
