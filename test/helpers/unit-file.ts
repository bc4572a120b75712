import { textOf } from './documents.ts'

export const unitText: string = textOf('deploy/systemd/holdfast.service')
/** For several instances: the part after the @ is the port. */
export const templateText: string = textOf('deploy/systemd/holdfast@.service')
export const gateText: string = textOf('deploy/systemd/holdfast-gate.service')

/** The values of a directive of a unit file, in order. No line of ours is continued. */
export function valuesOf (directive: string, text = unitText): string[] {
  return text.split('\n').flatMap(line => line.startsWith(`${directive}=`) ? [line.slice(directive.length + 1)] : [])
}
