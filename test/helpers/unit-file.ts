import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './documents.ts'

export const unitText: string = readFileSync(join(root, 'deploy/systemd/holdfast.service'), 'utf8')
/** For several instances: the part after the @ is the port. */
export const templateText: string = readFileSync(join(root, 'deploy/systemd/holdfast@.service'), 'utf8')
export const gateText: string = readFileSync(join(root, 'deploy/systemd/holdfast-gate.service'), 'utf8')

/** The values of a directive of a unit file, in order. No line of ours is continued. */
export function valuesOf (directive: string, text = unitText): string[] {
  return text.split('\n').flatMap(line => line.startsWith(`${directive}=`) ? [line.slice(directive.length + 1)] : [])
}
