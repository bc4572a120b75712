/** The origin of an upstream. Undefined if it is no http or https URL of a host, or has more than that. */
export function parseUpstream (given: unknown): string | undefined {
  // The path of a request is passed on as it came, so an upstream with a path of its own would be another resource.
  const [, origin] = (typeof given === 'string' ? /^(https?:\/\/[^/?#\\@\s]+)\/?$/i.exec(given) : null) ?? []
  return origin !== undefined && URL.canParse(origin) ? new URL(origin).origin : undefined
}
