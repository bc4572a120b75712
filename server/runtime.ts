const BUN =
  'Holdfast does not run on Bun: Bun replaces the HTTP client by which the keys of the identity provider are ' +
  'fetched under one deadline and one limit. Run the app on Node.js 20.19 or newer.'

/** @throws Error that says why the guard cannot work here */
export function checkRuntime (versions: Readonly<Record<string, string | undefined>>): void {
  if (versions['bun'] !== undefined) throw new Error(BUN)
}
