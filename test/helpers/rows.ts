/** The rows of a table by outcome and title. */
export const rowsOf = <Outcome extends string, Value>(table: Partial<Record<Outcome, Record<string, Value>>>) =>
  Object.entries(table as Record<string, Record<string, Value>>).flatMap(([outcome, rows]) =>
    Object.entries(rows).map(([title, value]) => ({ title, value, outcome: outcome as Outcome }))
  )
