import { PROVIDER_FAULTS } from './explain/faults.ts'
import type { JwsAlg } from '../lib/guard/jose/signature.ts'
import { needsNoKeys } from '../lib/assembly/create-issuers.ts'
import { createDiscovery, parseDocument } from '../lib/guard/provider/provider-document.ts'
import { createKeySetFinder, fetchKeySet, readKeySet } from '../lib/guard/provider/fetch-key-set.ts'
import { readKeyFile } from '../lib/guard/provider/key-file.ts'
import type { KeySet } from '../lib/guard/provider/key-set.ts'
import { holdsKey } from '../lib/base/printable.ts'
import { ProviderFailure } from '../lib/guard/provider/provider-failure.ts'
import { createTransport, type ProviderSession } from '../lib/guard/provider/transport.ts'
import type { IssuerSettings, Settings } from '../lib/settings/settings.ts'
import { processSurroundings } from '../server/surroundings.ts'
import { judgeClock, timedSession } from './compare-clocks.ts'
import { failedCall, failureText, fault, fine, warning, type Finding } from './findings.ts'
import { terminalLine } from './show.ts'

type ProviderSettings = Pick<Settings, 'idp' | 'proxies'>

/** No token can be verified, and no provider is called. */
export const DOMAIN_WITH_SCHEME = fault(
  'IDP_DOMAIN starts with a scheme, so every token is refused and no provider is called.',
  'Write only the host, without https://.'
)

/**
 * Fetches the keys of an issuer once, as the service does, and compares the clocks. @param nowMs milliseconds since the
 * epoch
 */
export async function checkProvider (
  provider: IssuerSettings,
  settings: ProviderSettings,
  nowMs: () => number
): Promise<Finding[]> {
  const { issuer, jwksUri, keysFile, algs, tokenProfile } = provider
  const mayHaveNone = needsNoKeys(provider.introspection)
  // The file was read when the settings were, and a broken one stops the start.
  if (keysFile !== undefined) return checkKeyFile(keysFile, algs, mayHaveNone)
  const findings: Finding[] = []
  const offsets: number[] = []
  const session = createTransport(settings.proxies).open()
  const timed = timedSession(session, offsets, nowMs)
  let asked = ''
  let body: Buffer = Buffer.alloc(0)
  const watched: ProviderSession = {
    close: session.close,
    async send (url) {
      asked = url
      const answer = await timed.send(url)
      findings.push(fine(`GET ${url} answered ${answer.status}.`))
      body = answer.body
      return answer
    }
  }
  try {
    const discovery = createDiscovery(issuer)
    const address = await createKeySetFinder(issuer, jwksUri, { discovery, mayHaveNone })(watched)
    if (tokenProfile === 'rfc9068' && discovery.spelling() !== issuer) {
      findings.push(
        warning(
          `It spells its issuer ${terminalLine(discovery.spelling())}, so under IDP_TOKEN_PROFILE=rfc9068 its tokens ` +
            'are refused.',
          'Write the issuer as it does.'
        )
      )
    }
    findings.push(
      ...judgeKeys(await fetchKeySet(address, watched, [], algs), algs, mayHaveNone),
      ...address === undefined ? [] : judgeEdwards(body, algs)
    )
  } catch (error) {
    if (!(error instanceof ProviderFailure)) throw error
    findings.push(failedCall(error.word, `The keys could not be fetched: GET ${asked}: ${failureText(error)}`))
  } finally {
    session.close()
  }
  return [...findings, ...judgeClock(offsets, settings.idp.clockToleranceSeconds)]
}

async function checkKeyFile (path: string, algs: readonly JwsAlg[], mayHaveNone: boolean): Promise<Finding[]> {
  try {
    const document = await readKeyFile(path, processSurroundings.readFile)
    return [...judgeKeys(await readKeySet(document, [], algs), algs, mayHaveNone), ...judgeEdwards(document, algs)]
  } catch (error) {
    return [
      fault(
        // The message of a file that is not there has its path.
        holdsKey(path)
          ? 'idp.keysFile is a key itself (not shown), not the path of one.'
          : `${path} holds no keys: ${(error as Error).message}.`,
        `Look at this: ${PROVIDER_FAULTS.file_unreadable.cure}.`
      )
    ]
  }
}

/** The same algorithm has two names (RFC 8037, RFC 9864), and that of a token is compared literally. */
function judgeEdwards (document: Uint8Array, algs: readonly JwsAlg[]): Finding[] {
  const { keys } = parseDocument(document, 'set_malformed')
  const [named, other] = algs.includes('EdDSA') ? ['Ed25519', 'EdDSA'] : ['EdDSA', 'Ed25519']
  if (!algs.includes(other as JwsAlg) || algs.includes(named as JwsAlg)) return []
  return (keys as ReadonlyArray<{ readonly alg?: unknown } | null>).some(key => key?.alg === named)
    ? [
        warning(
          `A key of its set is for ${named}, and IDP_ALGS names ${other} alone: a token whose header says ${named} ` +
            'is refused.',
          `Add ${named} to IDP_ALGS.`
        )
      ]
    : []
}

function judgeKeys ({ keys, passedOver }: KeySet, algs: readonly JwsAlg[], mayHaveNone: boolean): Finding[] {
  if (mayHaveNone && keys.length === 0 && Object.keys(passedOver).length === 0) {
    return [fine('It publishes no keys, and needs none: all of its tokens are opaque.')]
  }
  const entries = Object.entries(passedOver).map(([reason, count]) => `${count} ${reason}`).join(', ')
  const others = entries === '' ? '' : ` Passed over: ${entries}.`
  const names = algs.join(', ')
  return [
    keys.length > 0
      ? fine(`It publishes ${keys.length} usable ${keys.length === 1 ? 'key' : 'keys'} for ${names}.${others}`)
      : fault(
        `It publishes no key that can be used for ${names}, so every token is refused.${others}`,
        `Have the provider sign with ${algs.join(' or ')}; an RSA key must have 2048 to 4096 bits. ` +
          'docs/reference/monitoring.md explains why an entry is passed over.'
      ),
    ...passedOver.private_key === undefined
      ? []
      : [warning('It publishes a private key: whoever reads the set can sign with it.', 'Replace that key.')]
  ]
}
