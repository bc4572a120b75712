/** Whoever ends what was started for it: a test of tap, or a run that is none. */
export interface Owner {
  teardown (end: () => unknown): void
}
