// Stands in for tap in a process that runs many files of tests: each run has a root of its own.
export default globalThis[Symbol.for('holdfast.mutation.tap')]
