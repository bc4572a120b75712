import type { Output } from '../../cli/show.ts'

/** Runs a command. Resolves with its exit code and what it has printed. */
export async function shownBy (run: (out: Output) => Promise<number>, isTTY = false) {
  let text = ''
  const code = await run({
    isTTY,
    write: part => {
      text += part
    }
  })
  return { code, text }
}

/** The same, and its output is compared with the recorded one. */
export async function recordedRun (record: (output: string) => void, ...run: Parameters<typeof shownBy>) {
  const shown = await shownBy(...run)
  record(`${shown.text}code ${shown.code}`)
  return shown
}
