import { Transform } from 'node:stream'
import { Parser } from 'tap-parser'
import { stringify } from 'yaml'

/**
 * What the runner prints: each failure as a whole, and the counts at the end. Which file has ended is written by the
 * processes of the tests themselves, while they run (helpers/together.ts): the TAP of one arrives only when it ends.
 */
export default class Failures extends Transform {
  #parser = new Parser()
  #killed = 0

  constructor () {
    super()
    const print = text => this.push(text)
    this.#parser.on(
      'fail',
      ({ fullname, diag }) => print(`\nnot ok - ${fullname}\n${diag ? stringify(diag).replace(/^/gm, '  ') : ''}\n`)
    )
    // The process of a file has ended before its tests: none of them fails, and what has not run is not counted.
    this.#parser.on('assert', ({ ok, name, diag }) => {
      if (ok || !diag?.signal) return
      this.#killed++
      print(`\nnot ok - ${name}: its process was ended by ${diag.signal}\n`)
    })
    this.#parser.on('skip', ({ fullname, skip }) => print(`skipped - ${fullname}: ${skip}\n`))
    this.#parser.on('todo', ({ fullname, todo }) => print(`to do - ${fullname}: ${todo}\n`))
    this.#parser.on('bailout', reason => print(`Bail out! ${reason}\n`))
    this.#parser.on('comment', text => print(this.#withKilled(text)))
    this.#parser.on('extra', print)
    this.#follow(this.#parser)
  }

  /** The counts of the runner, with a failure for each process that was ended. */
  #withKilled (text) {
    if (this.#killed === 0) return text
    return text.replace(
      /^# \{ total: (\d+), (.*?)(?:, fail: (\d+))?( *\}|, )/,
      (_all, total, rest, fail = 0, end) => `# { total: ${Number(total) + this.#killed}, ${rest}, fail: ${Number(fail) + this.#killed}${end}`
    )
  }

  /** What a test prints that is no TAP is shown as well. */
  #follow (parser) {
    parser.on('child', child => {
      child.on('extra', text => this.push(text))
      this.#follow(child)
    })
  }

  _transform (chunk, _encoding, done) {
    this.#parser.write(chunk.toString())
    done()
  }

  _flush (done) {
    this.#parser.end()
    done()
  }
}
