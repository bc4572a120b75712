type Ratios = Readonly<Record<string, number>>
type Rows = ReadonlyArray<{ readonly id: string, readonly cpuUs: number }>

export function ratiosOf (rows: Rows): Ratios
export function slowerThan (recorded: Ratios, ratios: Ratios): string[]
export function check (options: {
  recorded: Ratios
  measure: () => Promise<Rows>
  tries: number
  say: (text: string) => void
}): Promise<string[]>
