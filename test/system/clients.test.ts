import { execFile, spawnSync } from 'node:child_process'
import { statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { startProvider } from '../../dev/provider/provider.ts'
import { startApp } from '../helpers/app.ts'
import { readBlocks } from '../helpers/documents.ts'
import type { Issuer } from '../helpers/issuer.ts'

/** The Python that .ci/programs completes. */
const PYTHON = '/usr/bin/python3'
const audience = 'https://api.example'

t.test('proof.py of docs/guide/clients.md makes the proofs for the token and for the API.', {
  skip: spawnSync(PYTHON, ['-c', 'import cryptography, jwt']).status !== 0 && 'python3 with jwt is not installed'
}, async t => {
  const { text } = readBlocks('docs/guide/clients.md').find(({ language }) => language === 'python')!
  const cwd = t.testdir()
  const file = /^# (\S+):/.exec(text)![1]!
  writeFileSync(join(cwd, file), text)
  const prove = async (...args: string[]) =>
    (await promisify(execFile)(PYTHON, [file, ...args], { cwd })).stdout.trim()

  const provider = await startProvider({ audience })
  t.teardown(() => provider.close())
  const { url, reasons } = await startApp(t, { url: provider.issuer } as Issuer, {
    IDP_AUDIENCE: audience,
    IDP_DPOP_MODE: 'REQUIRED',
    DPOP_NONCE: 'required'
  })
  const granted = await fetch(provider.tokenEndpoint, {
    method: 'POST',
    headers: {
      authorization: `Basic ${Buffer.from(`${provider.clientId}:${provider.clientSecret}`).toString('base64')}`,
      dpop: await prove('POST', provider.tokenEndpoint, '')
    },
    body: new URLSearchParams({ grant_type: 'client_credentials', resource: audience })
  })
  const { access_token: token = '', token_type: type } = await granted.json() as Record<string, string>
  t.equal(type, 'DPoP')
  t.equal(statSync(join(cwd, 'key.pem')).mode & 0o777, 0o600)

  const address = `${url}/api/private?page=2`
  const ask = async (...nonce: string[]) =>
    await fetch(address, {
      headers: { authorization: `DPoP ${token}`, dpop: await prove('GET', address, token, ...nonce) }
    })
  const first = await ask()
  t.equal(first.status, 401)
  t.equal((await ask(first.headers.get('dpop-nonce')!)).status, 200)
  t.strictSame(reasons(), ['nonce_missing'])
})
