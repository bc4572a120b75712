/** One thing that was looked at. A warning is worth knowing; only a fault makes the check fail. */
export interface Finding {
  readonly kind: 'fine' | 'warning' | 'fault'
  readonly says: string
  /** What to do about it. */
  readonly cure?: string
}

export const fine = (says: string): Finding => ({ kind: 'fine', says })
export const warning = (says: string, cure?: string): Finding => ({ kind: 'warning', says, ...cure !== undefined && { cure: plain(cure) } })
export const fault = (says: string, cure: string): Finding => ({ kind: 'fault', says: plain(says), cure: plain(cure) })

/** Sentences of the docs, on a terminal. */
const plain = (text: string): string => text.replaceAll('`', '').replace(/\[([^[\]]+)\]\([^)]+\)/g, '$1')
