import { readFileSync } from 'node:fs'
import t from 'tap'
import { parse } from 'yaml'
import { GATE_REASONS } from '../../lib/gate/gate-error.ts'
import { REFUSALS } from '../../lib/refusal.ts'
import { VERIFICATION } from '../../lib/revocation/effects.ts'
import { REQUEST_ENDS } from '../../lib/report/metrics/tallies.ts'
import { startApp } from '../helpers/app.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { RECEIVER, startTransmitter } from '../helpers/revocation-site.ts'

const read = (name: string) =>
  readFileSync(new URL(`../../deploy/observability/${name}`, import.meta.url), 'utf8')

interface Expression {
  where: string
  expr: string
}

interface Dashboard {
  templating: {
    list: ReadonlyArray<{ name: string, query: string | { query: string } }>
  }
  panels: ReadonlyArray<{
    id: number,
    title: string,
    gridPos: { x: number, y: number, w: number, h: number },
    targets?: ReadonlyArray<{ expr: string }>
  }>
}
const dashboard = JSON.parse(read('dashboard.json')) as Dashboard

interface Rule {
  alert: string
  expr: string
  labels: { severity: string }
  annotations: { summary: string }
}
const rules = (parse(read('alerts.yaml')) as { groups: Array<{ rules: Rule[] }> }).groups.flatMap(group => group.rules)

const expressions: readonly Expression[] = [
  ...rules.map(({ alert, expr }) => ({ where: alert, expr })),
  ...dashboard.panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ where: title, expr }))),
  ...dashboard.templating.list.flatMap(({ name, query }) =>
    typeof query === 'string' ? [] : [{ where: name, expr: query.query }]
  )
]

/** Labels that Prometheus puts on everything it scrapes. */
const SCRAPE_LABELS = ['instance', 'job']

/** The series that a service shows which has seen a request of each kind: labels by name. */
async function readSeries () {
  const series = new Map([['up', new Map<string, Set<string>>()]])
  const note = (name: string) => series.get(name) ?? series.set(name, new Map()).get(name)!
  for (const line of text.split('\n')) {
    const type = /^# TYPE (\S+) (\S+)/.exec(line)
    if (type && type[2] !== 'histogram') note(type[1]!)
    const [, name, labels = ''] = /^([a-z]\w*)(?:\{(.*)\})? /.exec(line) ?? []
    if (!name) continue
    for (const [, label, value] of labels.matchAll(/(\w+)="([^"]*)"/g)) {
      const values = note(name).get(label!) ?? new Set()
      note(name).set(label!, values.add(value!))
    }
  }
  return series
}

let text = ''

t.before(async () => {
  const issuer = await startIssuer(t)
  // An encryption key beside that of the tokens is passed over, so that its reason is a label.
  issuer.keys.push({ ...issuer.keys[0]!, jwk: { ...issuer.keys[0]!.jwk, kid: 'enc', use: 'enc' } })
  issuer.introspection = { active: true }
  const transmitter = await startTransmitter(t)
  const REVOCATION = { transmitters: [{ issuer: transmitter.url, audience: RECEIVER, delivery: 'push' }] }
  const { url } = await startApp(t, issuer, {
    REVOCATION,
    IDP_INTROSPECTION: 'jwt',
    IDP_CLIENT_ID: 'api',
    IDP_CLIENT_SECRET: 'secret'
  })
  const client = await createDpopClient()
  const token = issuer.token({ cnf: client.cnf })
  await fetch(`${url}/api/private`, {
    headers: { authorization: `DPoP ${token}`, dpop: client.proof({ token, url: `${url}/api/private` }) }
  })
  await fetch(`${url}/revocation/events`, {
    method: 'POST',
    headers: { 'content-type': 'application/secevent+jwt' },
    body: transmitter.set({ type: VERIFICATION })
  })
  const gate = await startApp(t, issuer, {
    AUDIT: '/dev/null',
    GATE: { upstream: 'http://127.0.0.1:1', rules: [{ path: '/mcp', mcp: { tools: ['*'] } }] }
  })
  const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'x' } }
  await fetch(`${gate.url}/mcp`, {
    method: 'POST',
    headers: { authorization: `Bearer ${issuer.token()}`, 'content-type': 'application/json' },
    body: JSON.stringify(message)
  })
  text = (await Promise.all([url, gate.url].map(async url => (await fetch(`${url}/metrics`)).text()))).join('\n')
})

t.test('Every metric and label that is named exists', async t => {
  const series = await readSeries()
  t.ok(expressions.length > 30)
  for (const { where, expr } of expressions) {
    const names = expr.match(/\b(?:up|(?:holdfast|nodejs|process)_\w+)\b/g) ?? []
    t.ok(names.length > 0, `${where} names a metric`)
    for (const name of names) t.ok(series.has(name), `${where}: ${name}`)

    const labelsOf = (
      names: readonly string[]
    ) => [...SCRAPE_LABELS, 'le', ...names.flatMap(name => [...series.get(name)?.keys() ?? []])]
    for (const [, name, matchers] of expr.matchAll(/\b(\w+)\{([^}]*)\}/g)) {
      for (const [, label] of matchers!.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)) {
        t.ok(labelsOf([name!]).includes(label!), `${where}: ${name} has the label ${label}`)
      }
    }
    for (const [, labels] of expr.matchAll(/\bby \(([^)]*)\)/g)) {
      for (const label of labels!.split(/,\s*/)) t.ok(labelsOf(names).includes(label), `${where}: grouped by ${label}`)
    }
  }
})

t.test('Every value that an alert waits for can occur', async t => {
  const series = await readSeries()
  const occurs = (name: string, label: string, value: string) => {
    if (label === 'reason') return value in REFUSALS || (GATE_REASONS as readonly string[]).includes(value)
    if (label === 'end') return (REQUEST_ENDS as readonly string[]).includes(value)
    if (label === 'status' && name === 'holdfast_requests_total') return ['401', '500', '503'].includes(value)
    return series.get(name)?.get(label)?.has(value) ?? false
  }
  for (const { alert, expr } of rules) {
    for (const [, name, matchers] of expr.matchAll(/\b(holdfast_\w+)\{([^}]*)\}/g)) {
      for (const [, label, operator, pattern] of matchers!.matchAll(/(\w+)(=~|!~|=)"([^"]*)"/g)) {
        const values = operator === '=' ? [pattern!] : pattern!.includes('*') ? [] : pattern!.split('|')
        for (const value of values) t.ok(occurs(name!, label!, value), `${alert}: ${label} is ${value}`)
      }
    }
  }
})
