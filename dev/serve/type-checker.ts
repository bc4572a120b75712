import { createInterface } from 'node:readline'
import type { ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { startChild } from './child.ts'
import { root } from '../../cli/places.ts'

/** Checks the types of the service on every change; the API runs whatever they are. `onChecked` gets what the compiler complained about, if anything. */
export function startTypeChecker (onChecked: (complaints: string[]) => void): ChildProcess {
  const program = fileURLToPath(import.meta.resolve('typescript/bin/tsc'))
  const args = [program, '-p', 'tsconfig.build.json', '--noEmit', '--watch', '--preserveWatchOutput', '--pretty', 'false']
  const child = startChild(args, root, process.env, 'pipe')
  let complaints: string[] = []
  createInterface({ input: child.stdout! }).on('line', (line) => {
    if (/Found \d+ errors?\. Watching/.test(line)) {
      onChecked(complaints)
      complaints = []
    } else if (/^\S.*\(\d+,\d+\): error |^error TS|^\s+\S/.test(line)) {
      complaints.push(line)
    }
  })
  return child
}
