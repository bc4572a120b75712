const BUN =
  'Holdfast does not run on Bun: Bun replaces the HTTP client by which the keys of the identity provider are ' +
  'fetched under one deadline and one limit. Run the app on Node.js 20.19 or newer.'

/** @throws Error that says why the guard cannot work here */
export function checkRuntime (versions: Readonly<Record<string, string | undefined>>): void {
  if (versions['bun'] !== undefined) throw new Error(BUN)
}

/** The first Fastify without weaknesses that are known. Before it, `npm audit` names CVE-2026-16732 and others. */
const FIRST_SOUND_FASTIFY = '5.12.2'

/** What the start says of a Fastify with known weaknesses. */
export const fastifyWarning = (version: string) =>
  version.localeCompare(FIRST_SOUND_FASTIFY, 'en', { numeric: true }) < 0
    ? `Fastify ${version} has known weaknesses, CVE-2026-16732 among them. Update it to ${FIRST_SOUND_FASTIFY} or newer`
    : undefined
