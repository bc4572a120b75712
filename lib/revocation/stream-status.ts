/**
 * What a stream can be (SSF 1.0 section 8.1.2), and beside that: `unknown` until it has said so, `no_subjects` if nothing is sent until
 * subjects are added, `failing` if its endpoints cannot be used.
 */
export const STREAM_STATUSES = Object.freeze(['unknown', 'enabled', 'paused', 'disabled', 'no_subjects', 'failing'] as const)
