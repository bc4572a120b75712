/** `node cli/run.cjs lab/guard/main.ts`: 20,000 requests at both doors. Ends with status 1 if their answers differ. */
import { readOptions } from '../../bench/options.js'
import { openDoors } from '../../test/fuzz/doors.ts'

const { seed, requests } = readOptions({
  seed: { type: 'string', default: '1' },
  requests: { type: 'string', default: '20000' }
})
const { run, close } = await openDoors(Number(seed))
const seen = new Map<number | undefined, number>()
for (let number = 0; number < Number(requests); number++) {
  for (const { status, fault } of await run(number)) {
    seen.set(status, (seen.get(status) ?? 0) + 1)
    if (!fault) continue
    console.error(`--seed ${seed}, number ${number}\n${fault.join('\n---\n')}`)
    process.exitCode = 1
  }
}
console.log(Object.fromEntries(seen))
await close()
