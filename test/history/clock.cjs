// Runs in each instance first. Its clock is wrong by what a file says, which it reads again at a signal. Most other
// signals would end the service.
const { readFileSync } = require('node:fs')
const { now } = Date
const read = () => Number(readFileSync(process.env.CLOCK_FILE, 'utf8'))
let wrongMs = read()
Date.now = () => now() + wrongMs
process.on('SIGWINCH', () => {
  wrongMs = read()
})
