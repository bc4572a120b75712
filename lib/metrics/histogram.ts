export type Histogram = ReturnType<typeof createHistogram>

/**
 * Counts durations by size. Counting takes a few comparisons. Labels are added only on request.
 * @param bounds upper bounds in seconds, inclusive, ascending
 */
export function createHistogram (bounds: readonly number[]) {
  const counts = new Float64Array(bounds.length + 1)
  let sum = 0

  return {
    observe (seconds: number): void {
      sum += seconds
      let at = 0
      while (at < bounds.length && seconds > bounds[at]!) at++
      counts[at]!++
    },
    /** The series of a Prometheus histogram: `_bucket` for each bound and `+Inf`, cumulative, then `_sum` and `_count`. */
    samples (name: string, labels: Sample['labels'] = {}): Sample[] {
      let count = 0
      const buckets = [...counts].map((own, at): Sample => {
        count += own
        return { metricName: `${name}_bucket`, labels: { ...labels, le: at < bounds.length ? bounds[at]! : '+Inf' }, value: count }
      })
      return [...buckets, { metricName: `${name}_sum`, labels, value: sum }, { metricName: `${name}_count`, labels, value: count }]
    }
  }
}

/** One value of a metric, with the labels that distinguish it from the others. */
export interface Sample {
  readonly labels: Readonly<Record<string, string | number>>
  readonly value: number
  /** The name with its suffix, for the series of a histogram. */
  readonly metricName?: string
}
