/**
 * Loaded into each instance: its clock can be set, its proofs are counted where they are accepted, and its vital signs
 * can be read.
 */
import { subscribe } from 'node:diagnostics_channel'
import { openSync, writeSync } from 'node:fs'
import { createServer } from 'node:http'
import v8 from 'node:v8'
import vm from 'node:vm'

const { CHAOS_SOCKET, CHAOS_ACCEPTED } = process.env

let offsetMs = 0
const { now } = Date
Date.now = () => now() + offsetMs

/** Timers that were set, for as long as they are referenced. */
let timers = []
const isAlive = ref => ref.deref()?._destroyed === false
let mostTimers = 1000
for (const name of ['setTimeout', 'setInterval']) {
  globalThis[name] = new Proxy(globalThis[name], {
    apply (target, self, args) {
      const timer = Reflect.apply(target, self, args)
      timers.push(new WeakRef(timer))
      if (timers.length > mostTimers) {
        timers = timers.filter(isAlive)
        mostTimers = timers.length * 2 + 1000
      }
      return timer
    }
  })
}

// Written before the answer is, so that the death of the process loses none.
const file = openSync(CHAOS_ACCEPTED, 'a')
subscribe('http.server.request.start', ({ request: { headers: { dpop } }, response }) => {
  if (dpop === undefined) return
  const { writeHead } = response
  response.writeHead = (status, ...rest) => {
    if (status === 200) writeSync(file, `${JSON.parse(Buffer.from(dpop.split('.')[1], 'base64url').toString()).jti}\n`)
    return Reflect.apply(writeHead, response, [status, ...rest])
  }
})

v8.setFlagsFromString('--expose-gc')
const collect = vm.runInNewContext('gc')

createServer((request, response) => {
  const { searchParams } = new URL(request.url, 'http://localhost')
  offsetMs = Number(searchParams.get('offsetMs') ?? offsetMs)
  if (request.url.startsWith('/vitals')) collect()
  const { heapUsed, rss } = process.memoryUsage()
  response.end(JSON.stringify({ timers: timers.filter(isAlive).length, heapBytes: heapUsed, rssBytes: rss }))
}).listen(CHAOS_SOCKET).unref()
