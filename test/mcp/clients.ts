import { join } from 'node:path'
import { here, inspector, mcpRemote, program, typescript1, typescript2, type Agent, type AgentSite } from './agents.ts'

/** A folder that main.ts fills, with clients in other languages too. */
export const PROGRAMS = process.env['MCP_PROGRAMS']

const ofPrograms = (folder: string): Array<[client: string, make: (site: AgentSite) => Agent]> => {
  const python = join(folder, 'py', 'bin', 'python')
  const packages = join(folder, 'npm', 'node_modules')
  return [
    ['Python `mcp`, `legacy`', program(python, [here('agent.py'), 'mcp', 'legacy'])],
    ['Python `mcp`, `auto`', program(python, [here('agent.py'), 'mcp', 'auto'])],
    ['Python `fastmcp`', program(python, [here('agent.py'), 'fastmcp'])],
    ['Go SDK', program(join(folder, 'go', 'agent'), [])],
    ['mcp-remote', mcpRemote(join(packages, 'mcp-remote', 'dist', 'proxy.js'))],
    [
      'Inspector CLI',
      inspector(
        join(packages, `node-${process.platform}-${process.arch}`, 'bin', 'node'),
        join(packages, '.bin', 'mcp-inspector')
      )
    ]
  ]
}

/** By the name that the table of clients has. */
export const CLIENTS: ReadonlyArray<[client: string, make: (site: AgentSite) => Agent]> = [
  ['TypeScript 1', typescript1],
  ['TypeScript 2, `legacy`', typescript2('legacy')],
  ['TypeScript 2, `auto`', typescript2('auto')],
  ['TypeScript 2, `pin`', typescript2({ pin: '2026-07-28' })],
  ...PROGRAMS === undefined ? [] : ofPrograms(PROGRAMS)
]
