import { execFile, spawn } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

/** The release, and the hash of its Go module (`h1:` of `go mod download -json`). */
export const VERSION = '3.7.13'
const SUM = 'h1:T8wy9KuaFzCkmXCqAzDy7t73pBDR1DHrJe3pqXpNXTw='

const CACHE = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'holdfast')
const PROGRAM = join(CACHE, `traefik-${VERSION}`)

/** What is written into the copy of the module. No request of the tests comes near any of it. */
const FILES: Readonly<Record<string, string>> = {
  // Of the providers of DNS, each brings a kit of its maker. Certificates are not fetched here.
  'pkg/provider/acme/dns/none.go': `package dns

import (
  "errors"

  "github.com/go-acme/lego/v5/challenge"
)

func NewDNSChallengeProviderByName(string) (challenge.Provider, error) {
  return nil, errors.New("this build has no providers of DNS")
}
`,
  // Basic and digest authentication: the fork that they need is not in every mirror of the Go modules.
  'pkg/middlewares/auth/digest_auth.go': 'package auth\n',
  'pkg/middlewares/auth/basic_auth.go': `package auth

import (
  "context"
  "errors"
  "net/http"

  "github.com/traefik/traefik/v3/pkg/config/dynamic"
)

func NewBasic(context.Context, http.Handler, dynamic.BasicAuth, string) (http.Handler, error) {
  return nil, errors.New("this build has no basic authentication")
}

func NewDigest(context.Context, http.Handler, dynamic.DigestAuth, string) (http.Handler, error) {
  return nil, errors.New("this build has no digest authentication")
}
`,
  // A module inside the module: the archive lacks it. There is nothing in it but two empty types.
  'pkg/config/dynamic/ext/go.mod': 'module github.com/traefik/traefik/dynamic/ext\n\ngo 1.26\n',
  'pkg/config/dynamic/ext/ext.go': 'package ext\n\ntype HTTP struct{}\n\ntype Router struct{}\n'
}
const ACME = 'pkg/provider/acme/provider.go'
const DNS = [
  '"github.com/go-acme/lego/v5/providers/dns"',
  '"github.com/traefik/traefik/v3/pkg/provider/acme/dns"'
] as const

/**
 * Builds Traefik from its Go module, unless the cache has it. Returns the path of the program.
 * @throws if Go is missing or too old, if the module differs from the one recorded here, or if the build fails
 */
export async function buildTraefik (): Promise<string> {
  if (existsSync(PROGRAM)) return PROGRAM
  mkdirSync(CACHE, { recursive: true })
  const folder = mkdtempSync(join(CACHE, 'build-'))
  try {
    const { stdout } = await promisify(execFile)('go', [
      'mod',
      'download',
      '-json',
      `github.com/traefik/traefik/v3@v${VERSION}`
    ], { cwd: folder })
    const { Dir: module, Sum: sum } = JSON.parse(stdout) as { readonly Dir: string, readonly Sum: string }
    if (sum !== SUM) throw new Error(`the module of Traefik ${VERSION} has the hash ${sum}, and not ${SUM}`)
    const source = join(folder, 'source')
    cpSync(module, source, { recursive: true })
    // The module cache is read-only.
    await promisify(execFile)('chmod', ['-R', 'u+w', source])
    for (const [file, text] of Object.entries(FILES)) {
      mkdirSync(join(source, file, '..'), { recursive: true })
      writeFileSync(join(source, file), text)
    }
    const acme = readFileSync(join(source, ACME), 'utf8')
    if (!acme.includes(DNS[0])) throw new Error(`${ACME} no longer imports ${DNS[0]}`)
    writeFileSync(join(source, ACME), acme.replace(...DNS))
    const program = join(folder, 'traefik')
    await runGo(source, [
      'build',
      '-trimpath',
      '-ldflags',
      `-s -w -X github.com/traefik/traefik/v3/pkg/version.Version=${VERSION}`,
      '-o',
      program,
      './cmd/traefik'
    ])
    renameSync(program, PROGRAM)
    return PROGRAM
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** @throws if it fails */
async function runGo (folder: string, args: readonly string[]): Promise<void> {
  const child = spawn('go', args, { cwd: folder, stdio: 'inherit' })
  const code = await new Promise((resolve, reject) => child.on('exit', resolve).on('error', reject))
  if (code !== 0) throw new Error(`go ${args[0]} ended with ${code}`)
}
