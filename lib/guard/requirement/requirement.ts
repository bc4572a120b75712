/** A value that a claim may be compared with. */
export type ClaimValue = string | number | boolean

/**
 * Decides about a part of a token. Only `true`, or a promise of `true`, lets the token pass. If it throws, or its
 * promise rejects, the request is answered with 500.
 */
export type Predicate<Part> = (part: Part) => boolean | PromiseLike<boolean>

/** What a claim must be: a value, any one of a list of values, or what a predicate accepts. */
export type ClaimRequirement = ClaimValue | readonly ClaimValue[] | Predicate<unknown>

/** An element of the claim `authorization_details` (RFC 9396 section 2). */
export interface AuthorizationDetail {
  /** The kind of the detail, which decides about its other members. */
  readonly type: string
  readonly [member: string]: unknown
}

/** One element of this type is needed, for which `check` holds. */
export interface DetailRequirement {
  /** The kind of the detail. */
  readonly type: string
  /** Decides about a detail of this type. Without it, any one is enough. */
  readonly check?: Predicate<AuthorizationDetail>
}

/** What a route asks for, as its author writes it. All members that are given must hold. */
export interface RequirementOptions {
  /** The token needs all of these scopes. */
  readonly scope?: string | readonly string[]
  /** The token needs any one of these scopes. */
  readonly anyScope?: string | readonly string[]
  /**
   * Claims by name. A name with dots leads into objects if no claim has the whole name: `realm_access.roles`. If a
   * claim of the token is an array, one fitting entry is enough.
   */
  readonly claims?: Readonly<Record<string, ClaimRequirement>>
  /** The `acr` claim must be one of these (RFC 9470). */
  readonly acr?: string | readonly string[]
  /** The user must have logged in at most this many seconds ago, by the `auth_time` claim (RFC 9470). */
  readonly maxAgeSeconds?: number
  /** The token needs an authorization detail of each of these kinds (RFC 9396). */
  readonly authorizationDetails?: DetailRequirement | readonly DetailRequirement[]
  /** A request without `Authorization` and `DPoP` lines passes too. */
  readonly optional?: boolean
}

/** One claim that is asked for: one of the allowed values, or what the predicate accepts. */
export type ClaimRule = {
  /** The name of the claim. */
  readonly name: string,
  /** The claim, or an entry of it, must be one of these. */
  readonly allowed: readonly ClaimValue[],
  /** Absent beside a list. */
  readonly isAllowed?: undefined
} | {
  /** The name of the claim. */
  readonly name: string,
  /** Absent beside a predicate. */
  readonly allowed?: undefined,
  /** Decides about the value of the claim. */
  readonly isAllowed: Predicate<unknown>
}

/**
 * What a route asks of a token beyond being valid, as it is judged. The token must meet every member that is given. An
 * empty requirement asks for nothing. The members are those of RequirementOptions, as lists.
 */
export interface Requirement {
  /** The token needs all of these scopes. */
  readonly scope?: readonly string[]
  /** The token needs any one of these scopes. */
  readonly anyScope?: readonly string[]
  /** Each of these rules must hold. */
  readonly claims?: readonly ClaimRule[]
  /** The `acr` claim must be one of these (RFC 9470). */
  readonly acr?: readonly string[]
  /** The user must have logged in at most this many seconds ago (RFC 9470). */
  readonly maxAgeSeconds?: number
  /** The token needs a detail for each of these (RFC 9396). */
  readonly authorizationDetails?: readonly DetailRequirement[]
  /** A request without credentials passes too. */
  readonly optional?: true
}

/** Any valid token passes. */
export const ANY_TOKEN: Requirement = Object.freeze({})

/** Scopes of which any one is enough. */
export interface AnyScope {
  /** The scopes. */
  readonly any: readonly string[]
}

/**
 * The arguments of `requireScope`: scopes that are all needed, or one object with scopes of which any one is enough.
 */
export type RequiredScopes = readonly [string, ...string[]] | readonly [anyOf: AnyScope]

/**
 * Reads the arguments of `requireScope('a', 'b')` (all of them) and `requireScope({ any: ['a', 'b'] })`.
 * @throws TypeError for any other form, so that a route never asks for less than its author meant, and for a text that
 * is not a scope (RFC 6749 section 3.3)
 */
export function parseRequiredScopes (...args: RequiredScopes): Requirement {
  const [first] = args
  const isAny = isPlainObject(first) && args.length === 1 && Object.keys(first).join() === 'any'
  const scopes: unknown = isAny ? first.any : args
  if (!Array.isArray(scopes) || scopes.length === 0 || ![...scopes].every(isWord)) {
    throw new TypeError(
      "requireScope takes one or more scopes, as requireScope('a', 'b') for all of them or requireScope({ any: " +
        "['a', 'b'] }) for any one"
    )
  }
  return parseRequirement({ [isAny ? 'anyScope' : 'scope']: scopes })
}

/**
 * Reads what a route asks for. Everything is checked here, when the route is made, so that a route never asks for less
 * than its author meant.
 * @throws TypeError that names the member and says what it takes: for an unknown member, a value of the wrong type
 * (`undefined` is one), an empty list, or a text that is not a scope (RFC 6749 section 3.3)
 */
export function parseRequirement (options: RequirementOptions): Requirement {
  if (!isPlainObject(options)) throw new TypeError("require takes one plain object, such as { scope: 'read:messages' }")
  const members = Object.entries(options).map(([name, given]) => {
    if (!Object.hasOwn(MEMBERS, name)) {
      throw new TypeError(
        `require: there is no member ${JSON.stringify(name)}; the members are ${Object.keys(MEMBERS).join(', ')}`
      )
    }
    return [name, MEMBERS[name as keyof Requirement](given)] as const
  }).filter(([, member]) => member !== undefined)
  return members.length === 0 ? ANY_TOKEN : Object.freeze(Object.fromEntries(members))
}

const MEMBERS: { readonly [Name in keyof Requirement]-?: (given: unknown) => Requirement[Name] } = {
  scope: given => parseWords('scope', given),
  anyScope: given => parseWords('anyScope', given),
  claims: parseClaims,
  acr: given => parseWords('acr', given),
  maxAgeSeconds: parseMaxAge,
  authorizationDetails: parseDetails,
  optional: parseOptional
}

// RFC 6749 section 3.3. An acr value keeps to the same characters, because a challenge separates the values by spaces.
const WORD = /^[\x21\x23-\x5b\x5d-\x7e]+$/

const isWord = (word: unknown) => typeof word === 'string' && WORD.test(word)

function parseWords (name: string, given: unknown): readonly string[] {
  return entriesOf(
    given,
    isWord,
    `${name} takes a word, or a list of one or more words, without spaces, quotes and backslashes`
  )
}

function parseClaims (given: unknown): readonly ClaimRule[] {
  const rules = isPlainObject(given) ? Object.entries(given).map(([name, rule]) => parseClaimRule(name, rule)) : []
  if (rules.length === 0) throw new TypeError('require: claims takes an object with one or more claims')
  return Object.freeze(rules)
}

function parseClaimRule (name: string, rule: unknown): ClaimRule {
  if (typeof rule === 'function') return { name, isAllowed: rule as Predicate<unknown> }
  const allowed = entriesOf<ClaimValue>(
    rule,
    isClaimValue,
    `the claim ${JSON.stringify(name)} takes a string, a number, a boolean, a list of one or more of these, or a ` +
      'function'
  )
  return { name, allowed }
}

function isClaimValue (value: unknown): boolean {
  return typeof value === 'string' || typeof value === 'boolean' || Number.isFinite(value)
}

function parseMaxAge (given: unknown): number {
  if (!Number.isSafeInteger(given) || (given as number) < 0) {
    throw new TypeError('require: maxAgeSeconds takes a whole number of seconds, 0 or more')
  }
  return given as number
}

function parseDetails (given: unknown): readonly DetailRequirement[] {
  const details = entriesOf<DetailRequirement>(
    given,
    isDetailRequirement,
    'authorizationDetails takes { type, check }, or a list of one or more of these; type is a non-empty string, ' +
      'check is a function and may be absent'
  )
  return Object.freeze(details.map(detail => Object.freeze({ ...detail })))
}

function isDetailRequirement (detail: unknown): boolean {
  if (!isPlainObject(detail)) return false
  const { type, check, ...rest } = detail
  const isCheck = typeof check === 'function' || !Object.hasOwn(detail, 'check')
  return typeof type === 'string' && type !== '' && isCheck && Object.keys(rest).length === 0
}

function parseOptional (given: unknown): true | undefined {
  if (typeof given !== 'boolean') throw new TypeError('require: optional takes true or false')
  return given || undefined
}

/** An instance of a class may inherit members, and others may be hidden and would not be read. */
function isPlainObject (value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return (prototype === Object.prototype || prototype === null) &&
    Reflect.ownKeys(value).length === Object.keys(value).length
}

/**
 * The entries of a list, or the one value that may stand in its place. A gap in a list is an entry, and fits nowhere.
 * @param takes what the member takes, behind its name
 * @throws TypeError if there is no entry, or one of another form
 */
function entriesOf<Entry> (given: unknown, isEntry: (entry: unknown) => boolean, takes: string): readonly Entry[] {
  const entries: unknown[] = Array.isArray(given) ? [...given] : [given]
  if (entries.length === 0 || !entries.every(isEntry)) throw new TypeError(`require: ${takes}`)
  return Object.freeze(entries as Entry[])
}
