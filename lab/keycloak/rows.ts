/** One row of the table: what was set, what was sent, and what came back. */
export interface Row {
  setting: string
  sent: string
  came: string
  /** What came back when the table was recorded. */
  expected: string
}

/** The table as it is in the docs. */
export function showRows (version: string, rows: readonly Row[]): string {
  return [
    '| version | setting | sent | came back |',
    '| --- | --- | --- | --- |',
    ...rows.map(({ setting, sent, came }) => `| ${version} | ${setting} | ${sent} | ${came} |`),
    ''
  ].join('\n')
}

/** The same with one row for what was sent, and a column for each setting. */
export function showBySetting (version: string, rows: readonly Row[]): string {
  const settings = [...new Set(rows.map(({ setting }) => setting))]
  const cell = (sent: string, setting: string) =>
    rows.find(row => row.sent === sent && row.setting === setting)?.came ?? ''
  return [
    `| ${version} | ${settings.join(' | ')} |`,
    `| ---${' | ---'.repeat(settings.length)} |`,
    ...[...new Set(rows.map(({ sent }) => sent))].map(sent =>
      `| ${[sent, ...settings.map(setting => cell(sent, setting))].join(' | ')} |`
    ),
    ''
  ].join('\n')
}

/** The rows in which this Keycloak differs from the recorded one. */
export const differences = (rows: readonly Row[]): Row[] => rows.filter(({ came, expected }) => came !== expected)
