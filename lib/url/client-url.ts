import type { HttpScheme } from './http-url.ts'

/** The URL that the client used, without query and fragment, in normal form. */
export interface RequestUrl {
  readonly scheme: HttpScheme
  /** Holds the port if it is not the scheme's default. */
  readonly host: string
  /** Includes the prefix that a proxy took away. */
  readonly path: string
  /** scheme://host and path. */
  readonly href: string
  /** The path without the prefix that a proxy took away. */
  readonly ownPath: string
}
