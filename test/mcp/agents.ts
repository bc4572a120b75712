import { spawn, type ChildProcess } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import {
  Client as NewClient,
  StreamableHTTPClientTransport as NewTransport,
  type VersionNegotiationMode
} from '@modelcontextprotocol/client'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

/** What an agent sends its token to. */
export interface AgentSite {
  url: string
  /** Of the next request. */
  token: string
}

interface ToolAnswer {
  text: string
  /** Notifications of progress that came before it. */
  progress: number
}

/** A client of the protocol. Each act fails with what its user would read. */
export interface Agent {
  begin (): Promise<void>
  list (): Promise<string[]>
  call (tool: string): Promise<ToolAnswer>
  close (): Promise<void>
  /** Whether a connection keeps the token with which it began. */
  keepsToken?: boolean
  /** Whether it does not ask for notifications of progress. */
  hasNoProgress?: boolean
}

const bearer = ({ token }: AgentSite) => ({ authorization: `Bearer ${token}` })
const textOf = (content: unknown) => (content as Array<{ text?: string }>).map(({ text }) => text).join('\n')

function tokenFetch (site: AgentSite): typeof fetch {
  return (input, init) =>
    fetch(input, { ...init, headers: { ...Object.fromEntries(new Headers(init?.headers)), ...bearer(site) } })
}

function oldAgent (makeTransport: () => OldTransport | StdioClientTransport): Agent {
  const client = new OldClient({ name: 'old', version: '1.0.0' })
  return {
    begin: () => client.connect(makeTransport() as Parameters<typeof client.connect>[0]),
    list: async () => (await client.listTools()).tools.map(({ name }) => name),
    async call (name) {
      let progress = 0
      const { content } = await client.callTool({ name, arguments: {} }, undefined, {
        onprogress: () => {
          progress++
        }
      })
      return { text: textOf(content), progress }
    },
    close: () => client.close()
  }
}

/** Version 1 of the TypeScript SDK. */
export const typescript1 = (site: AgentSite): Agent =>
  oldAgent(() => new OldTransport(new URL(site.url), { fetch: tokenFetch(site) }))

/** Version 2 of the TypeScript SDK. */
export function typescript2 (mode: VersionNegotiationMode): (site: AgentSite) => Agent {
  return site => {
    const client = new NewClient({ name: 'new', version: '2.0.0' }, { versionNegotiation: { mode } })
    return {
      begin: () => client.connect(new NewTransport(new URL(site.url), { fetch: tokenFetch(site) })),
      list: async () => (await client.listTools()).tools.map(({ name }) => name),
      async call (name) {
        let progress = 0
        const { content } = await client.callTool({ name, arguments: {} }, {
          onprogress: () => {
            progress++
          }
        })
        return { text: textOf(content), progress }
      },
      close: () => client.close()
    }
  }
}

/** mcp-remote, which speaks to its own client over stdin and stdout. */
export function mcpRemote (program: string): (site: AgentSite) => Agent {
  const open = (site: AgentSite) =>
    oldAgent(() =>
      new StdioClientTransport({
        command: process.execPath,
        args: [
          program,
          site.url,
          '--allow-http',
          '--transport',
          'http-only',
          '--header',
          `Authorization:${bearer(site)['authorization']}`
        ],
        stderr: 'ignore'
      })
    )
  return site => {
    let agent = open(site)
    return {
      keepsToken: true,
      begin: () => (agent = open(site)).begin(),
      list: () => agent.list(),
      call: name => agent.call(name),
      close: () => agent.close()
    }
  }
}

/** The command line of Inspector: a connection for each act. */
export function inspector (node: string, program: string): (site: AgentSite) => Agent {
  return site => {
    async function act (...args: string[]): Promise<{ tools: Array<{ name: string }>, content: unknown }> {
      const child = spawn(node, [
        program,
        '--cli',
        site.url,
        '--transport',
        'http',
        '--header',
        `Authorization: ${bearer(site)['authorization']}`,
        ...args
      ], { stdio: ['ignore', 'pipe', 'pipe'] })
      const [out, err] = await Promise.all(
        [child.stdout, child.stderr].map(async stream => (await stream.toArray()).join(''))
      )
      try {
        return JSON.parse(out!)
      } catch {
        throw new Error(`${out}${err}`)
      }
    }
    const list = async () => (await act('--method', 'tools/list')).tools.map(({ name }) => name)
    return {
      begin: async () => {
        await list()
      },
      list,
      call: async name => ({
        text: textOf((await act('--method', 'tools/call', '--tool-name', name)).content),
        progress: 0
      }),
      close: async () => {},
      hasNoProgress: true
    }
  }
}

/** A program that reads an act in each line, and writes an answer in each. */
export function program (command: string, args: readonly string[]): (site: AgentSite) => Agent {
  return site => {
    let child: ChildProcess | undefined
    let answers: AsyncIterator<string>
    async function act (act: string, tool?: string): Promise<{ names: string[] } & ToolAnswer> {
      if (!child) {
        child = spawn(command, args, {
          cwd: import.meta.dirname,
          env: { ...process.env, MCP_URL: site.url },
          stdio: ['pipe', 'pipe', 'ignore']
        })
        answers = createInterface({ input: child.stdout! })[Symbol.asyncIterator]()
      }
      child.stdin!.write(`${JSON.stringify({ act, tool, token: site.token })}\n`)
      const { done, value } = await answers.next()
      if (done) throw new Error('The client has ended')
      const { error, ...answer } = JSON.parse(value)
      if (error !== undefined) throw new Error(error)
      return answer
    }
    return {
      begin: async () => {
        await act('begin')
      },
      list: async () => (await act('list')).names,
      call: name => act('call', name),
      async close () {
        child?.kill()
      }
    }
  }
}

export const here = (...path: string[]): string => join(import.meta.dirname, ...path)
