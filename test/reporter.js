import { Transform } from 'node:stream'
import { Parser } from 'tap-parser'
import { stringify } from 'yaml'

/**
 * What the runner prints: each failure as a whole, and the counts at the end. Which file has ended is written by the
 * processes of the tests themselves, while they run (helpers/together.ts): the TAP of one arrives only when it ends.
 */
export default class Failures extends Transform {
  #parser = new Parser()

  constructor () {
    super()
    const print = text => this.push(text)
    this.#parser.on(
      'fail',
      ({ fullname, diag }) => print(`\nnot ok - ${fullname}\n${diag ? stringify(diag).replace(/^/gm, '  ') : ''}\n`)
    )
    this.#parser.on('skip', ({ fullname, skip }) => print(`skipped - ${fullname}: ${skip}\n`))
    this.#parser.on('todo', ({ fullname, todo }) => print(`to do - ${fullname}: ${todo}\n`))
    this.#parser.on('bailout', reason => print(`Bail out! ${reason}\n`))
    this.#parser.on('comment', print)
    this.#parser.on('extra', print)
    this.#follow(this.#parser)
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
