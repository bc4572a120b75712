import type { AppFunctions } from '../settings/options.ts'
import type { IssuerLookup } from '../settings/option-types.ts'
import { createIssuerReader } from '../settings/validation.ts'
import type { Surroundings } from '../base/surroundings.ts'
import { createDynamicIssuers, DEFAULT_MAX_ISSUERS } from '../guard/token/dynamic-issuers.ts'
import type { IssuerTable, TokenIssuer } from '../guard/token/issuer-table.ts'
import { createTokenIssuer, type IssuersOptions } from './create-issuers.ts'

const DEADLINE_MS = 5000

/**
 * Makes the issuers that a function of the application names, when their tokens come. An issuer is made anew only if
 * its settings have changed.
 */
export function createIssuersOfFunction (
  lookUp: IssuerLookup,
  { maxIssuers = DEFAULT_MAX_ISSUERS }: Pick<AppFunctions, 'maxIssuers'>,
  options: IssuersOptions
): IssuerTable {
  const readIssuer = createIssuerReader(options.settings)
  const recordOf = new WeakMap<TokenIssuer, string>()
  let hasFailed = false
  const { observing } = options
  const issuers = createDynamicIssuers({ ask, maxIssuers, nowMs: options.surroundings.steadyMs })
  if (!observing) return issuers
  return { ...issuers, find: observing.patient(issuers.find, 'issuers_unavailable') }

  async function ask (iss: string, known: TokenIssuer | undefined) {
    try {
      const found = await find(iss, known)
      hasFailed = false
      return found
    } catch (error) {
      if (!hasFailed) options.onEvent({ name: 'issuers_unavailable', failure: failureOf(error) })
      hasFailed = true
      throw error
    }
  }

  async function find (iss: string, known: TokenIssuer | undefined) {
    const record = await withinDeadline(async () => lookUp(iss), options.surroundings)
    if (record === undefined) return undefined
    const issuer = readIssuer(record)
    const text = JSON.stringify(issuer)
    if (known && recordOf.get(known) === text) return known
    const made = await createTokenIssuer(issuer, options)
    recordOf.set(made, text)
    return made
  }
}

/** A function of the application may reject with anything, or with nothing. */
function failureOf (error: unknown): string {
  const { message } = Object(error) as { readonly message?: unknown }
  return typeof message === 'string' ? message : 'it failed without an error'
}

function withinDeadline<T> (run: () => Promise<T>, { after }: Surroundings): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = after(DEADLINE_MS, () => reject(new Error('no answer within 5 s')))
    run().finally(cancel).then(resolve, reject)
  })
}
