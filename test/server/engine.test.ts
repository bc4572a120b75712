import { createHook } from 'node:async_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { tuneEngine } from '../../server/engine.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/** The objects that Node makes for the ticks of a function, held weakly. */
function ticksOf (run: () => void) {
  const ticks: Array<WeakRef<object>> = []
  const hook = createHook({
    init: (_id, type, _trigger, resource) => {
      if (type === 'TickObject') ticks.push(new WeakRef(resource))
    }
  }).enable()
  run()
  hook.disable()
  return ticks
}

t.test('A kept tick survives a full collection, and an unreferenced one does not', async t => {
  const [kept] = ticksOf(() => tuneEngine(1))
  const [lost] = ticksOf(() => process.nextTick(() => {}))
  await sleep(10)
  collect()
  await sleep(0)
  t.ok(kept!.deref(), 'the one that was kept')
  t.notOk(lost!.deref(), 'the other')
})
