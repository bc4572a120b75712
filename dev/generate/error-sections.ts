import { ADVICE } from '../../cli/explain/advice.ts'
import { REFUSALS, type RefusalReason } from '../../lib/refusal.ts'

/** A section of docs/reference/errors.md for each reason. */
export function makeErrorSections (): string {
  return ['', ...(Object.keys(REFUSALS) as RefusalReason[]).map(section)].join('\n')
}

function section (reason: RefusalReason): string {
  const { status, error, description } = REFUSALS[reason]
  const { cause, cure } = ADVICE[reason]
  return [
    `### ${reason}`,
    '',
    `**${status}**${error ? ` \`${error}\`` : ''}: "${description}"`,
    '',
    `- ${cause}`,
    `- → ${cure}`,
    ''
  ].join('\n')
}
