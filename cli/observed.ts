import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { flag, runTool } from './arguments.ts'
import type { Tool, World } from './arguments.ts'
import { BadUsage } from './bad-usage.ts'
import { asObject, parseJson } from './input.ts'
import { terminalLine } from './show.ts'

const TOOL = {
  name: 'observed',
  options: { json: { ...flag, says: 'print { rows, unreadable } as JSON' } },
  help: run =>
    `Says who would have been refused while OBSERVE was on: by rule, reason and client, from lines of the log or of
the audit. Where both are read, those of the audit count: only they name clients.

  ${run} audit.log audit.log.1
  journalctl -u holdfast -o cat | ${run}`,
  ending: () => 'Lines that are no JSON are counted, and passed over.'
} as const satisfies Tool

interface Row extends Readonly<Record<'route' | 'reason' | 'client' | 'status', unknown>> {
  readonly count: number
  /** ISO 8601. Null if no line says when. */
  readonly first: string | null
  readonly last: string | null
}

/** Reports what lines of log and audit say of requests that were only observed. Returns the exit code. */
export function observed (
  argv: readonly string[],
  world: World & { readonly input: Readable }
): Promise<number> {
  return runTool(TOOL, argv, world, async ({ values: { json = false }, positionals }) => {
    const ofLog = new Map<string, Row>()
    const ofAudit = new Map<string, Row>()
    let unreadable = 0
    const read = (line: string): void => {
      const entry = asObject(parseJson(line))
      if (!entry) unreadable += line.trim() === '' ? 0 : 1
      else if (entry['decision'] === 'observed') add(ofAudit, entry)
      else if (entry['enforced'] === false) add(ofLog, entry)
    }
    if (positionals.length === 0) await readLines(world.input, read)
    for (const path of positionals) {
      await readLines(createReadStream(path), read).catch(({ message }: Error) => {
        throw new BadUsage(`${path} cannot be read: ${message}`)
      })
    }
    const rows = [...(ofAudit.size > 0 ? ofAudit : ofLog).values()].sort((a, b) => b.count - a.count)
    const lines = json
      ? [JSON.stringify({ rows, unreadable }, null, 2)]
      : [...rows.map(describe), `${rows.length === 0 ? 'Nobody would have been refused. ' : ''}Lines that could not be read: ${unreadable}`]
    world.out.write(`${lines.join('\n')}\n`)
    return 0
  })
}

const describe = ({ count, status, reason, route, client, first, last }: Row): string =>
  terminalLine(
    `${count} x ${status} ${reason}, ${route ?? 'no rule'}${client === null ? '' : `, client ${client}`}, ${first} to ${last}`
  )

function readLines (input: Readable, read: (line: string) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    createInterface({ input, crlfDelay: Infinity }).on('line', read).once('close', resolve).once('error', reject)
  })
}

function add (rows: Map<string, Row>, entry: Record<string, unknown>): void {
  const { route = null, reason, client = null, status, time } = entry
  const key = JSON.stringify([route, reason, client, status])
  const before = rows.get(key)
  // In this form, texts are in the order of time.
  const times = [before?.first, before?.last, new Date(time as string).toJSON()].filter(at => typeof at === 'string').sort()
  rows.set(key, {
    route,
    reason,
    client,
    status,
    count: (before?.count ?? 0) + 1,
    first: times[0] ?? null,
    last: times.at(-1) ?? null
  })
}
