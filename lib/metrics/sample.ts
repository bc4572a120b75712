/** One value of a metric, with the labels that tell it from the others. */
export interface Sample {
  readonly labels: Readonly<Record<string, string | number>>
  readonly value: number
  /** The name with its suffix, for the series of a histogram. */
  readonly metricName?: string
}
