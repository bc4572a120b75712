import { EventEmitter } from 'node:events'
import type { ServerResponse } from 'node:http'
import { mock } from 'node:test'
import t from 'tap'
import { MAX_STALLED, STALL_MS, createStallWatch } from '../../server/stalled-answers.ts'

t.test(
  'If too many clients read nothing of their answers, those that have read nothing for longest are ended, and no ' +
    'others',
  async t => {
    let nowMs = 0
    mock.method(performance, 'now', () => nowMs)
    mock.timers.enable({ apis: ['setTimeout'] })
    t.teardown(() => {
      mock.timers.reset()
      mock.restoreAll()
    })
    const pass = (ms: number): void => {
      nowMs += ms
      mock.timers.tick(ms)
    }
    const ended: string[] = []
    const watchStalled = createStallWatch()
    const stall = (name: string) => {
      const answer = Object.assign(new EventEmitter(), {
        destroy () {
          ended.push(name)
        }
      })
      watchStalled(answer as unknown as ServerResponse)
      return answer
    }
    const slow = stall('slow')
    const answers = [slow, ...Array.from({ length: MAX_STALLED - 1 }, (_, index) => stall(`deaf ${index}`))]
    pass(STALL_MS * 10)
    t.strictSame(ended, [], 'as many as may stall')

    slow.emit('drain')
    watchStalled(slow as unknown as ServerResponse)
    t.strictSame(ended, [], 'one that has taken its piece stalls anew')
    const late = [stall('late 0'), stall('late 1')]
    t.strictSame(ended, ['deaf 0', 'deaf 1'], 'for each beyond the limit the longest one')
    watchStalled(slow as unknown as ServerResponse)
    t.strictSame(ended, ['deaf 0', 'deaf 1'], 'one that is watched twice is one')
    for (const answer of answers.slice(3)) answer.emit('close')
    const young = Array.from({ length: MAX_STALLED }, (_, index) => stall(`young ${index}`))
    t.strictSame(ended, ['deaf 0', 'deaf 1'], 'none is ended before its time')
    pass(STALL_MS - 1)
    t.strictSame(ended, ['deaf 0', 'deaf 1'])
    pass(1)
    t.strictSame(ended, ['deaf 0', 'deaf 1', 'slow', 'late 0', 'late 1'], 'then as many as are too many')
    for (const answer of [...late, ...young]) answer.emit('close')
  }
)
