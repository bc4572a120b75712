import { hash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { flag, runTool, type Tool, type World } from './arguments.ts'
import { BadUsage } from './bad-usage.ts'
import { asObject, parseJson } from './input.ts'
import { terminalLine } from './show.ts'

const TOOL = {
  name: 'observed',
  options: { json: { ...flag, says: 'print { rows, unreadable } as JSON' } },
  mostWords: Infinity,
  help: run =>
    `Says who would have been refused while OBSERVE was on: by rule, reason and client, from lines of the log or of
the audit. A request that is in both counts once, as the audit has it: only that names clients.

  ${run} audit.log audit.log.1
  journalctl -u holdfast -o cat | ${run}`,
  ending: () => 'Lines that cannot be read are counted, and passed over.'
} as const satisfies Tool

type Row = ReturnType<typeof rowOf>

/** Reports what lines of log and audit say of requests that were only observed. Returns the exit code. */
export function observed (argv: readonly string[], world: World & { readonly input: Readable }): Promise<number> {
  return runTool(TOOL, argv, world, async ({ values: { json }, positionals }) => {
    const ofAll = new Map<string, Row>()
    /**
     * Lines of the log, which may be about requests of the audit, and how many lines that has of each request. There
     * may be many millions: only numbers are kept of each.
     */
    const logged = new Map<string, { readonly row: Row, readonly ids: number[], readonly times: unknown[] }>()
    const audited = new Map<number, number>()
    let unreadable = 0
    const read = (line: string) => {
      if (line.trim() === '') return
      const entry = asObject(parseJson(line))
      const isAudited = entry?.['decision'] === 'observed'
      const isOne = isAudited || entry?.['enforced'] === false
      if (!entry || (isOne && !isRow(entry))) {
        unreadable++
      } else if (isAudited) {
        const id = numberOf(entry['id'])
        audited.set(id, (audited.get(id) ?? 0) + 1)
        add(ofAll, rowOf(entry))
      } else if (isOne) {
        const row = rowOf(entry)
        const kind = logged.get(keyOf(row)) ?? { row, ids: [], times: [] }
        logged.set(keyOf(row), kind)
        kind.ids.push(numberOf(entry['reqId']))
        kind.times.push(entry['time'])
      }
    }
    if (positionals.length === 0) await readLines(world.input, read)
    for (const path of positionals) {
      await readLines(createReadStream(path), read).catch(({ message }: Error) => {
        throw new BadUsage(`${path} cannot be read: ${message}`)
      })
    }
    for (const { row, ids, times } of logged.values()) {
      for (const [n, id] of ids.entries()) {
        const left = Number.isNaN(id) ? 0 : audited.get(id) ?? 0
        // An id may come back after a restart.
        if (left > 0) audited.set(id, left - 1)
        else add(ofAll, rowOf({ ...row, time: times[n] }))
      }
    }
    const rows = [...ofAll.values()].sort((a, b) => b.count - a.count)
    const texts = rows.map(({ count, status, reason, route, client, first, last }) =>
      terminalLine(`${count} x ${status} ${reason}, rule ${route}, client ${client}, ${first} to ${last}`)
    )
    const lines = json
      ? [JSON.stringify({ rows, unreadable }, null, 2)]
      : [
        `Would have been refused:${rows.length === 0 ? ' nobody' : ''}`,
        ...texts,
        `Lines that could not be read: ${unreadable}`
        ]
    world.out.write(`${lines.join('\n')}\n`)
    return 0
  })
}

function readLines (input: Readable, read: (line: string) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    createInterface({ input, crlfDelay: Infinity }).on('line', read).once('close', resolve).once('error', reject)
  })
}

function isRow ({ route, reason, client, status }: Record<string, unknown>): boolean {
  return typeof status === 'number' && [reason, route ?? '', client ?? ''].every(text => typeof text === 'string')
}

function rowOf ({ route = null, reason, client = null, status, time }: Record<string, unknown>) {
  // ISO 8601, whose texts are in the order of time. Null if the line does not say when.
  const at = new Date((time ?? NaN) as string).toJSON() as string | null
  return { route, reason, client, status, count: 1, first: at, last: at }
}

const keyOf = ({ route, reason, client, status }: Row) => JSON.stringify([route, reason, client, status])

/** An id of a request as a number, which two of them share only by chance. NaN if there is none. */
const numberOf = (id: unknown) => id === undefined ? NaN : parseInt(hash('sha256', String(id)).slice(0, 12), 16)

function add (rows: Map<string, Row>, row: Row) {
  const { first: at } = row
  const known = rows.get(keyOf(row))
  if (!known) {
    rows.set(keyOf(row), row)
    return
  }
  known.count++
  if (at === null) return
  if (known.first === null || at < known.first) known.first = at
  if (known.last === null || at > known.last) known.last = at
}
