/** The tools by name: what each is for, and how to load it. Each is loaded only if it is asked for. */
export const TOOLS = {
  start: [
    'starts the service, with the settings of the environment, .env and config.yaml',
    async () => (await import('./start.ts')).start
  ],
  gate: [
    'guards another service, and says which of its rules holds for a request',
    async () => (await import('./gate.ts')).gate
  ],
  call: [
    'gets an access token, calls an API, and says why it was refused',
    async () => (await import('./call.ts')).call
  ],
  explain: [
    'runs each check of the service on a request, a token or a proof',
    async () => (await import('./explain.ts')).explain
  ],
  check: ['verifies settings, identity providers and stores', async () => (await import('./check.ts')).check],
  observed: [
    'says who would have been refused while OBSERVE was on',
    async () => (await import('./observed.ts')).observed
  ],
  revoke: ['revokes access tokens, or undoes a revocation', async () => (await import('./revoke.ts')).revoke],
  stream: [
    'shows, creates, changes or ends the stream of a transmitter',
    async () => (await import('./stream.ts')).stream
  ]
} as const

/** What `--help` says. `program` is the command that the tools are parts of; in a clone they are scripts of npm. */
export function showTools (program?: string): string {
  const lines = Object.entries(TOOLS).map(([name, [says]]) =>
    `  ${[program, name].filter(Boolean).join(' ').padEnd(program === undefined ? 10 : 18)} ${says}`
  )
  const head = program === undefined ? 'Tools, each with --help:' : 'Guards an HTTP API with access tokens and DPoP.'
  const tail = program === undefined ? [] : ['', `Each has --help. ${program} --version prints the version.`]
  return [head, '', ...lines, ...tail, ''].join('\n')
}
