import type { ReplayStore } from './replay-store.ts'

/** The store of a service that does not look for replays: every claim is the first. RFC 9449 section 11.1 then rests on the age of a proof alone. */
export function createOffStore (): ReplayStore {
  let claims = 0
  return {
    claim (_id, _jkt, _expiresAt, done) {
      claims++
      done(null, true)
    },
    state: () => ({ kind: 'off', ready: true, claims, seen: 0, refused: 0 }),
    close () {}
  }
}
