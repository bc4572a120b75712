import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { GoProgram } from '../go-program.ts'

/** What is written into the copy of the module. No request of the tests comes near any of it. */
const FILES: Record<string, string> = {
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

export const TRAEFIK: GoProgram = {
  name: 'traefik',
  module: 'github.com/traefik/traefik/v3',
  version: '3.7.13',
  sum: 'h1:T8wy9KuaFzCkmXCqAzDy7t73pBDR1DHrJe3pqXpNXTw=',
  main: './cmd/traefik',
  versionVariable: 'github.com/traefik/traefik/v3/pkg/version.Version',
  change (source) {
    for (const [file, text] of Object.entries(FILES)) {
      mkdirSync(join(source, file, '..'), { recursive: true })
      writeFileSync(join(source, file), text)
    }
    const acme = readFileSync(join(source, ACME), 'utf8')
    if (!acme.includes(DNS[0])) throw new Error(`${ACME} no longer imports ${DNS[0]}`)
    writeFileSync(join(source, ACME), acme.replace(...DNS))
  }
}
