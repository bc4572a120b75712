import { quoteSetting } from '../printable.ts'
import { REVOCATION } from './section-specs.ts'
import type { LOGOUT, SECRET, TRANSMITTER } from './section-specs.ts'
import type { Part, ValueOf } from './setting-spec.ts'
import type { SettingValues } from './specs.ts'
import type { Surroundings } from '../surroundings.ts'

type SecretOption = ValueOf<typeof SECRET>
type RevocationSection = NonNullable<SettingValues['revocation']>

export type TransmitterSettings = ValueOf<typeof TRANSMITTER>
export type LogoutSettings = ValueOf<typeof LOGOUT> & { readonly issuer: string }

/** What the section `revocation` of the configuration says, with all defaults. */
export interface RevocationSettings extends Pick<RevocationSection, 'retentionSeconds' | 'staleSeconds' | 'outage'> {
  readonly transmitters: readonly TransmitterSettings[]
  readonly logout: readonly LogoutSettings[]
  /** The scope that operators need. Undefined if there are no operators. */
  readonly operatorScope: string | undefined
  /** `memory`, or the URL of a Redis. */
  readonly store: string
}

/**
 * Completes a section that its schema lets pass, and reports what the schema cannot say, with the path of the part, such as
 * `revocation.logout[0]`.
 * @param issuers undefined if they are not usable
 */
export function resolveRevocation (
  { transmitters = [], logout = [], operators, store, ...rest }: RevocationSection, { dpop: { replay }, server: { publicUrl } }: SettingValues,
  issuers: ReadonlyArray<{ readonly issuer: string }> | undefined, tell: (path: string, problem: string) => void
): RevocationSettings {
  const clients = logout.map((client, index) => {
    if (client.issuer === undefined && issuers !== undefined && issuers.length !== 1) tell(`revocation.logout[${index}]`, ' names no issuer, and there is not exactly one; set its issuer')
    return { ...client, issuer: client.issuer ?? issuers?.[0]?.issuer }
  })
  transmitters.forEach((sender, index) => tellLacks(sender, publicUrl, problem => tell(`revocation.transmitters[${index}]`, problem)))
  const names = transmitters.map(({ issuer, metadata }) => issuer ?? metadata)
  names.forEach((name, index) => {
    const first = names.indexOf(name)
    if (name !== undefined && first !== index) tell(`revocation.transmitters[${index}]`, ` is ${quoteSetting(name)}, as revocation.transmitters[${first}] is; allowed: each transmitter once`)
  })
  return {
    ...rest,
    transmitters,
    logout: clients as LogoutSettings[],
    operatorScope: operators?.scope,
    store: store ?? (replay === 'off' ? 'memory' : replay)
  }
}

function tellLacks ({ issuer, metadata, audience, manage, delivery, clientId, clientSecret }: TransmitterSettings, publicUrl: string | undefined, tell: (problem: string) => void): void {
  if (issuer === undefined && metadata === undefined) tell(' names neither issuer nor metadata; allowed: one of them, or both')
  if (audience === undefined && !manage) tell(' has no audience; allowed: the aud of its events, which may be left out only with manage')
  if (manage && (clientId === undefined || clientSecret === undefined)) tell(' has manage, which needs clientId and clientSecret')
  if (manage && delivery === 'push' && publicUrl === undefined) tell(' has manage and push, which need PUBLIC_URL (server.publicUrl): it makes the address for pushes')
}

/**
 * The text of a secret.
 * @throws Error that says what is wrong, without any of the text
 */
export async function readSecret (secret: SecretOption, { readFile, environment }: Pick<Surroundings, 'readFile' | 'environment'>): Promise<string> {
  if (typeof secret === 'string') return secret
  const text = 'env' in secret ? environment(secret.env) : Buffer.from(await readFile(secret.file, 16 * 1024)).toString('utf8').replace(/\r?\n$/, '')
  if (text === undefined || text === '') throw new Error('env' in secret ? `the variable ${secret.env} is not set` : `the file ${secret.file} is empty`)
  return text
}

/** The names of the parts of the section that may hold a secret. */
export const SECRET_PARTS: ReadonlySet<string> = new Set(secretsIn(REVOCATION))

function secretsIn ({ properties = {}, items }: Part): string[] {
  const named = Object.entries(properties).flatMap(([name, part]) => part.secret ? [name] : secretsIn(part))
  return items ? [...named, ...secretsIn(items)] : named
}
