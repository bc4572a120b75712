import t from 'tap'
import { judgeFlood } from '../helpers/revocation-flood.ts'

for (const isAboutOurs of [false, true]) {
  t.test(
    'A flood of signed pushes of 100 aliases each about ' +
      `${isAboutOurs ? 'the issuer of the tokens takes at most a quarter of the table' : 'an issuer that has no tokens here stores nothing'}, and others' events are accepted and refuse their tokens`,
    t => judgeFlood(t, isAboutOurs)
  )
}
