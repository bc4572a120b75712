import { constants } from 'node:http2'
import t from 'tap'
import { TokenEndedError } from '../../lib/guard/request-auth.ts'
import { createOpenAnswers, type OpenAnswer } from '../../plugins/auth/open-answers.ts'

function start () {
  const clock = { look: undefined as (() => void) | undefined }
  const answers = createOpenAnswers({
    after: () => () => {},
    every: (_ms, run) => {
      clock.look = run
      return () => {
        clock.look = undefined
      }
    }
  }, (answer: OpenAnswer) => answer)
  const controller = new AbortController()
  const codes: string[] = []
  const response = {
    writableEnded: false,
    destroyed: false,
    on () {},
    destroy () {
      response.destroyed = true
    }
  }
  const answer = {
    request: {},
    response,
    auth: { signal: controller.signal },
    isWebSocket: () => false,
    onEnd: ({ code }: TokenEndedError) => {
      codes.push(code)
    }
  } as unknown as OpenAnswer
  const place = answers.add(answer)
  return { place, answers, clock, response, codes, end: () => controller.abort(new TokenEndedError('token_revoked')) }
}

t.test('An answer whose token ended before the first look ends at that look', async t => {
  const { clock, response, codes, end, answers } = start()
  end()
  t.strictSame([response.destroyed, codes], [false, []])
  clock.look!()
  t.strictSame([response.destroyed, codes, answers.state()], [true, ['token_revoked'], { open: 0, ended: 1 }])
})

t.test('An answer that was completed since the last look is left as it is', async t => {
  const { clock, response, codes, end, answers } = start()
  clock.look!()
  t.equal(answers.state().open, 1)
  response.writableEnded = true
  end()
  t.strictSame([response.destroyed, codes, answers.state()], [false, [], { open: 0, ended: 0 }])
  clock.look!()
  t.equal(clock.look, undefined, 'nothing is left to look at')
})

t.test('A completed answer is no longer watched', async t => {
  const { answers, clock, response } = start()
  clock.look!()
  response.destroyed = true
  clock.look!()
  t.strictSame(answers.state(), { open: 0, ended: 0 })
  t.equal(clock.look, undefined)
})

t.test('Over HTTP/2 the stream says whether the client has gone, and is closed at the end', async t => {
  for (const isGone of [true, false]) {
    const { answers, clock, response, end } = start()
    const codes: number[] = []
    const stream = { destroyed: false, close: (code: number) => codes.push(code) }
    Object.assign(response, { stream })
    clock.look!()
    stream.destroyed = isGone
    clock.look!()
    t.equal(answers.state().open, isGone ? 0 : 1)
    end()
    t.strictSame([codes, response.destroyed], [isGone ? [] : [constants.NGHTTP2_CANCEL], false])
  }
})

t.test('An answer that is left while it is watched is not ended', async t => {
  const { place, answers, clock, response, codes, end } = start()
  clock.look!()
  answers.leave(place)
  end()
  t.strictSame([response.destroyed, codes, answers.state()], [false, [], { open: 0, ended: 0 }])
})

t.test('An answer that is completed at once is never looked at', async t => {
  const { place, answers, clock, codes, end } = start()
  answers.leave(place)
  answers.leave(place)
  end()
  clock.look!()
  t.strictSame([codes, answers.state(), clock.look], [[], { open: 0, ended: 0 }, undefined])
})
